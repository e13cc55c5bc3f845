//! The host string of `-H`: `host:slots` items separated by commas, blanks around items ignored.
//! Order matters: the first host gets rank 0. Only the text is judged here, not whether a host
//! exists.

use crate::{Error, Result};

/// Most slots one host may have, and most ranks one job may have: far beyond any machine, close
/// enough to catch a slip of the finger before it becomes a million processes.
pub const SLOTS_LIMIT: u32 = 65_536;

/// One item of the host list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name as written.
    pub name: String,
    /// How many ranks it takes; 0 is allowed and means none.
    pub slots: u32,
}

/// Reads a host string.
///
/// # Errors
/// Names the item that is wrong and says what would be right; a host listed twice is refused,
/// because two lots of slots on one host would give two ranks the same local rank.
pub fn parse_hosts(text: &str) -> Result<Vec<Host>> {
    if text.trim().is_empty() {
        return Err(Error::NoHosts);
    }
    let mut hosts: Vec<Host> = Vec::new();
    for item in text.split(',') {
        let host = parse_item(item.trim())?;
        if let Some(known) = hosts.iter().find(|known| known.name == host.name) {
            let slots = known.slots + host.slots;
            return Err(Error::DuplicateHost {
                host: host.name,
                slots,
            });
        }
        hosts.push(host);
    }
    Ok(hosts)
}

fn parse_item(item: &str) -> Result<Host> {
    let wrong = |problem| Error::HostSyntax {
        item: item.to_owned(),
        problem,
    };
    if item.is_empty() {
        return Err(wrong(
            "there is nothing between two commas or at an end of the list",
        ));
    }
    let Some((name, slots)) = item.split_once(':') else {
        return Err(wrong("the number of slots is missing"));
    };
    if slots.contains(':') {
        return Err(wrong(
            "more than one `:`; IPv6 addresses cannot be used, give a name",
        ));
    }
    let (name, slots) = (name.trim_end(), slots.trim_start());
    if name.is_empty() {
        return Err(wrong("the host name is missing"));
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    {
        return Err(wrong(
            "a host name has letters, digits, `.`, `-` and `_` only",
        ));
    }
    if slots.is_empty() {
        return Err(wrong("the number of slots is missing"));
    }
    if !slots.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong("the slots are not a whole number"));
    }
    match slots.parse() {
        Ok(slots) if slots <= SLOTS_LIMIT => Ok(Host {
            name: name.to_owned(),
            slots,
        }),
        _ => Err(wrong("no host has more than 65536 slots")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: u32) -> Host {
        Host {
            name: name.to_owned(),
            slots,
        }
    }

    fn refusal(text: &str) -> String {
        parse_hosts(text).unwrap_err().to_string()
    }

    #[test]
    fn keeps_order_and_ignores_blanks() {
        let hosts = parse_hosts(" node-b:4 , node_a.example:2,\tc: 0 ").unwrap();
        assert_eq!(
            hosts,
            [host("node-b", 4), host("node_a.example", 2), host("c", 0)]
        );
    }

    #[test]
    fn says_what_is_wrong_and_what_would_be_right() {
        assert_eq!(
            refusal("localhost"),
            "`localhost` in the host list is not `host:slots`: the number of slots is missing; \
             write e.g. `-H localhost:4`"
        );
        assert!(refusal("a:1,,b:1").contains("between two commas"));
        assert!(refusal("a:-1").contains("whole number"));
        assert!(refusal("a:two").contains("whole number"));
        assert!(refusal("a:").contains("slots is missing"));
        assert!(refusal(":2").contains("host name is missing"));
        assert!(refusal("fe80::1:2").contains("IPv6"));
        assert!(refusal("user@a:2").contains("letters, digits"));
        assert!(refusal("a:65537").contains("65536"));
        assert!(refusal("a:99999999999999999999").contains("65536"));
        assert!(refusal("  ").contains("host list is empty"));
    }

    #[test]
    fn a_host_listed_twice_is_refused_with_the_sum() {
        assert_eq!(
            refusal("a:2,b:1,a:3"),
            "host `a` is listed more than once; list it once with all its slots, e.g. `a:5`"
        );
    }
}
