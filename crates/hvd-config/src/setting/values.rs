//! What a setting may be: the one check of a text, whether it comes from the environment, from an
//! option or from a file, and the words that say what would have been right.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Kinds of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// On or off; see [`parse_flag`].
    Flag,
    /// A whole number.
    Count,
    /// A whole number that must not be 0.
    Positive,
    /// A whole number of seconds.
    Seconds,
    /// A whole number of seconds that must not be 0.
    PositiveSeconds,
    /// A whole number of bytes.
    Bytes,
    /// Milliseconds, up to an hour.
    Milliseconds,
    /// A number from 0 to 1.
    Fraction,
    /// A port of TCP.
    Port,
    /// A range of ports of TCP.
    Ports,
    /// Addresses of hosts by name.
    Addresses,
    /// A list of processor cores.
    Cores,
    /// One of some words, upper or lower case, and those words in a sentence.
    OneOf(&'static [&'static str], &'static str),
    /// Any text; the word says what it stands for.
    Text(&'static str),
}

impl ValueKind {
    /// What a value looks like, as the end of a sentence: `is not {expected}`.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Flag => "0 or 1",
            Self::Count => "a whole number, 0 or more",
            Self::Positive => "a whole number, 1 or more",
            Self::Seconds => "a number of seconds, 0 or more",
            Self::PositiveSeconds => "a number of seconds, 1 or more",
            Self::Bytes => "a number of bytes, 0 or more",
            Self::Milliseconds => "a number of milliseconds, 0 or more",
            Self::Fraction => "a number from 0 to 1",
            Self::Port => "a port number",
            Self::Ports => "a range of ports from 1 to 65535 such as `30000-30100`",
            Self::Addresses => "a list of addresses such as `node-b=10.0.0.2,node-c=fd00::3`",
            Self::Cores => "a list of core numbers such as `0,2,4`",
            Self::OneOf(_, words) => words,
            Self::Text(what) => what,
        }
    }

    /// Whether a text is a value.
    pub fn accept(self, text: &str) -> bool {
        let text = text.trim();
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
        match self {
            Self::Flag => parse_flag(text).is_some(),
            Self::Count | Self::Seconds => text.parse::<u32>().is_ok(),
            Self::Positive | Self::PositiveSeconds => {
                text.parse::<u32>().is_ok_and(|value| value > 0)
            }
            Self::Bytes => text.parse::<u64>().is_ok(),
            Self::Milliseconds => (0.0..=3_600_000.0).contains(&number(text)),
            Self::Fraction => (0.0..=1.0).contains(&number(text)),
            Self::Port => text.parse::<u16>().is_ok(),
            Self::Ports => parse_ports(text).is_some(),
            Self::Addresses => parse_addresses(text).is_some(),
            Self::Cores => parse_cores(text).is_some(),
            Self::OneOf(words, _) => words.iter().any(|word| word.eq_ignore_ascii_case(text)),
            Self::Text(_) => true,
        }
    }
}

/// On or off.
pub(crate) fn parse_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// Core numbers with commas between them.
pub(crate) fn parse_cores(text: &str) -> Option<Vec<usize>> {
    text.split(',')
        .map(|core| core.trim().parse().ok())
        .collect()
}

/// The first and the last port, neither of them 0, with a dash between them.
pub(crate) fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|&port| port > 0);
    let range = port(first)?..=port(last)?;
    (!range.is_empty()).then_some(range)
}

/// Pairs `name=address` with commas between them; no name comes twice.
pub(crate) fn parse_addresses(text: &str) -> Option<BTreeMap<String, IpAddr>> {
    let mut addresses = BTreeMap::new();
    for pair in text.split(',') {
        let (name, address) = pair.split_once('=')?;
        let (name, address) = (name.trim(), address.trim().parse().ok()?);
        let is_new = addresses.insert(name.to_owned(), address).is_none();
        if name.is_empty() || !is_new {
            return None;
        }
    }
    Some(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_tells_sense_from_garbage() {
        let word = ValueKind::OneOf(&["auto", "tcp"], "`auto` or `tcp`");
        for (values, right, wrong) in [
            (ValueKind::Flag, "0 1 true False", "2 yes -1"),
            (ValueKind::Count, "0 7", "-1 1.5 x 4294967296"),
            (ValueKind::Positive, "1", "0 -1 x"),
            (ValueKind::Seconds, "0 60", "-1 1m"),
            (ValueKind::PositiveSeconds, "60", "0 soon"),
            (ValueKind::Bytes, "0 134217728 8589934592", "1MB -1"),
            (ValueKind::Milliseconds, "0 0.5 20", "-1 NaN inf 1e9"),
            (ValueKind::Fraction, "0 0.8 1", "1.01 -0.1 NaN"),
            (ValueKind::Port, "4321", "70000 -1"),
            (
                ValueKind::Ports,
                "1-65535 80-80",
                "0-5 5-4 1-65536 80 80- a-b",
            ),
            (
                ValueKind::Addresses,
                "a=10.0.0.1 a=fd00::1,b=127.0.0.2",
                "a a= =10.0.0.1 a=10.0.0.1,a=10.0.0.2 a=[::1] a=b a=10.0.0.1,",
            ),
            (ValueKind::Cores, "0 0,2,4", "0,,1 a -1 0-3"),
            (word, "auto TCP", "pigeon"),
        ] {
            for text in right.split(' ') {
                assert!(values.accept(text), "{values:?} {text}");
            }
            for text in wrong.split(' ') {
                assert!(!values.accept(text), "{values:?} {text}");
            }
        }
    }
}
