//! Quantities and lines as people read them. Text that came from another host is made harmless
//! here before it reaches a terminal.

mod table;

pub(crate) use table::TextTable;

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A number of bytes with three digits or so: `64 MiB`, `1.5 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    scaled(count, &UNITS)
}

/// A rate in bits per second, as networks are sold: `9.4 Gbit/s`.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    let mut value = bytes_per_second * 8.0;
    let mut units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    format!("{} {unit}", three_digits(value))
}

/// A time in seconds, which may be negative: `85 us`, `1.2 ms`, `-3.0 s`.
pub(crate) fn seconds(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    let (size, unit) = if size < 0.000_999_5 {
        (size * 1e6, "us")
    } else if size < 0.999_5 {
        (size * 1e3, "ms")
    } else if size < 599.5 {
        (size, "s")
    } else if size < 36_000.0 {
        (size / 60.0, "min")
    } else {
        (size / 3600.0, "h")
    };
    format!("{sign}{} {unit}", three_digits(size))
}

fn scaled(count: u64, units: &[&'static str]) -> String {
    let mut shift = 0;
    let mut unit = units.first().copied().unwrap_or_default();
    for &next in units.iter().skip(1) {
        if count >> shift < 1024 {
            break;
        }
        shift += 10;
        unit = next;
    }
    if shift == 0 {
        return format!("{count} {unit}");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let value = count as f64 / (1_u64 << shift) as f64;
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    if value < 9.95 && value.fract() != 0.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A text without anything that could move a terminal's cursor.
pub(crate) fn harmless(text: &str) -> String {
    let safe = |letter: char| if letter.is_control() { '?' } else { letter };
    text.chars().map(safe).collect()
}

/// The words of a text in lines of at most `width` letters; longer words get a line of their own.
/// What stands in backticks is one word, so that a command can be copied.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(text) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Words between blanks; what stands in backticks is one word.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for part in text.split_whitespace() {
        match words.last_mut().filter(|_| is_open) {
            Some(word) => word.extend([" ", part]),
            None => words.push(part.to_owned()),
        }
        is_open ^= part.matches('`').count() % 2 == 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_few_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes((755 << 30) + (600 << 20)), "756 GiB");
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
        assert_eq!(rate(117_500_000.0), "940 Mbit/s");
        assert_eq!(rate(1.25e9), "10 Gbit/s");
        assert_eq!(rate(1.0), "8 bit/s");
        assert_eq!(seconds(0.000_085), "85 us");
        assert_eq!(seconds(0.001_24), "1.2 ms");
        assert_eq!(seconds(-3.04), "-3.0 s");
        assert_eq!(seconds(90.0), "90 s");
        assert_eq!(seconds(7200.0), "120 min");
        assert_eq!(seconds(-90_000.0), "-25 h");
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        assert_eq!(harmless("node\u{1b}[2J\n\u{e9}"), "node?[2J?\u{e9}");
    }

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable a", 4), ["unbreakable", "a"]);
        assert_eq!(wrap("say `a b c` now", 9), ["say", "`a b c`", "now"]);
        assert!(wrap("  ", 4).is_empty());
    }
}
