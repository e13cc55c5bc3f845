//! The host string of `-H`: `host:slots` items separated by commas, blanks around items ignored.
//! Order matters: the first host gets rank 0. A host is a name, an IPv4 address or an IPv6 address
//! in brackets, with `user@` before it where ssh should log in as another user. Only the text is
//! judged here, not whether a host exists.

use std::{fmt, net::Ipv6Addr};

use crate::error::{Error, Result};

/// Most slots one host may have, and most ranks one job may have: far beyond any machine, close
/// enough to catch a slip of the finger before it becomes a million processes.
pub const SLOTS_LIMIT: u32 = 65_536;

/// One item of the host list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name as ssh wants it: `name` or `user@name`; an IPv6 address without brackets.
    pub name: String,
    /// How many ranks it takes; 0 is allowed and means none.
    pub slots: u32,
}

impl Host {
    /// The name as ranks see it, in `HOROVOD_HOSTNAME` and in messages: without `user@`.
    pub fn hostname(&self) -> &str {
        self.name
            .rsplit_once('@')
            .map_or(&self.name, |(_, name)| name)
    }

    /// The user ssh logs in as, where one was written.
    pub fn user(&self) -> Option<&str> {
        self.name.rsplit_once('@').map(|(user, _)| user)
    }

    /// Whether both are the same host: users do not matter, and neither does the case of letters.
    pub(super) fn is_same_host(&self, other: &Self) -> bool {
        self.hostname().eq_ignore_ascii_case(other.hostname())
    }
}

/// The item of a host list that gives this host.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, slots) = (self.hostname(), self.slots);
        if let Some(user) = self.user() {
            write!(f, "{user}@")?;
        }
        if name.contains(':') {
            write!(f, "[{name}]:{slots}")
        } else {
            write!(f, "{name}:{slots}")
        }
    }
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
        if let Some(known) = hosts.iter().find(|known| known.is_same_host(&host)) {
            let slots = known.slots + host.slots;
            return Err(Error::DuplicateHost {
                host: host.hostname().to_owned(),
                item: Host { slots, ..host }.to_string(),
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
    let (name, slots) = split_slots(item).map_err(wrong)?;
    let slots = slots.ok_or_else(|| wrong("the number of slots is missing"))?;
    Ok(Host {
        name: parse_name(name.trim_end()).map_err(wrong)?,
        slots: parse_slots(slots.trim_start()).map_err(wrong)?,
    })
}

/// Parts `name:slots` at the colon that separates them, if there is one; brackets protect the
/// colons of an IPv6 address.
pub(super) fn split_slots(item: &str) -> Result<(&str, Option<&str>), &'static str> {
    let after_brackets = item.find(']').unwrap_or(0);
    let Some(colon) = item[after_brackets..].find(':') else {
        return Ok((item, None));
    };
    let (name, slots) = item.split_at(after_brackets + colon);
    let slots = &slots[1..];
    if slots.contains(':') {
        return Err("more than one `:`; put an IPv6 address in brackets, as in `[fd00::2]:4`");
    }
    Ok((name, Some(slots)))
}

/// Checks `name`, `user@name` or `[address]` and gives it as ssh wants it.
pub(super) fn parse_name(text: &str) -> Result<String, &'static str> {
    let (user, name) = match text.rsplit_once('@') {
        Some((user, name)) => (Some(user), name),
        None => (None, text),
    };
    let name = match name.strip_prefix('[') {
        Some(rest) => parse_bracketed(rest)?,
        None => parse_plain(name)?,
    };
    let Some(user) = user else { return Ok(name) };
    if user.is_empty() {
        return Err("the user before `@` is missing");
    }
    if !is_word(user) {
        return Err(
            "a user has letters, digits, `.`, `-` and `_` only and does not begin with `-`; \
             set any other as `User` in ~/.ssh/config",
        );
    }
    Ok(format!("{user}@{name}"))
}

fn parse_plain(name: &str) -> Result<String, &'static str> {
    if name.is_empty() {
        return Err("the host name is missing");
    }
    if name.contains(']') {
        return Err("a `]` without `[`");
    }
    if name.starts_with('-') {
        return Err("a host name does not begin with `-`");
    }
    if !is_word(name) {
        return Err("a host name has letters, digits, `.`, `-` and `_` only");
    }
    Ok(name.to_owned())
}

/// The rest of `[address]` after the first bracket. One way of writing for each address, so that
/// a host listed twice is found.
fn parse_bracketed(rest: &str) -> Result<String, &'static str> {
    let Some(address) = rest.strip_suffix(']') else {
        return Err("the brackets do not hold one IPv6 address, as in `[fd00::2]:4`");
    };
    if address.contains('%') {
        return Err(
            "addresses of one link (with `%`) cannot be used; give a name or another address",
        );
    }
    match address.parse::<Ipv6Addr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => Err("what is in brackets is not an IPv6 address"),
    }
}

/// Checks the number of slots.
pub(super) fn parse_slots(text: &str) -> Result<u32, &'static str> {
    if text.is_empty() {
        return Err("the number of slots is missing");
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the slots are not a whole number");
    }
    match text.parse() {
        Ok(slots) if slots <= SLOTS_LIMIT => Ok(slots),
        _ => Err("no host has more than 65536 slots"),
    }
}

/// What neither a shell nor ssh takes for anything but a word.
fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !text.starts_with('-') && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        assert!(refusal("a b:2").contains("letters, digits"));
        assert!(refusal("-oProxyCommand=x:2").contains("begin with `-`"));
        assert!(refusal("@a:2").contains("user before `@` is missing"));
        assert!(refusal("-l@a:2").contains("a user has letters"));
        assert!(refusal("u$x@a:2").contains("~/.ssh/config"));
        assert!(refusal("[fd00::2]").contains("slots is missing"));
        assert!(refusal("[fd00::2:1").contains("more than one `:`"));
        assert!(refusal("[fd00:1").contains("brackets do not hold"));
        assert!(refusal("[fe80::1%eth0]:1").contains("one link"));
        assert!(refusal("[node]:1").contains("not an IPv6 address"));
        assert!(refusal("fd00]:1").contains("without `[`"));
        assert!(refusal("a:65537").contains("65536"));
        assert!(refusal("a:99999999999999999999").contains("65536"));
        assert!(refusal("  ").contains("host list is empty"));
    }

    #[test]
    fn users_and_addresses_are_kept_as_ssh_wants_them() {
        let hosts = parse_hosts("root@node1:2,[FD00:0::2]:4,me@[::1]:1,10.0.0.7:1").unwrap();
        let parts: Vec<_> = hosts
            .iter()
            .map(|host| (host.name.as_str(), host.user(), host.hostname()))
            .collect();
        assert_eq!(
            parts,
            [
                ("root@node1", Some("root"), "node1"),
                ("fd00::2", None, "fd00::2"),
                ("me@::1", Some("me"), "::1"),
                ("10.0.0.7", None, "10.0.0.7"),
            ]
        );
        assert_eq!(hosts[1].to_string(), "[fd00::2]:4");
        assert_eq!(hosts[2].to_string(), "me@[::1]:1");
    }

    #[test]
    fn one_host_is_found_behind_users_cases_and_spellings() {
        assert_eq!(
            refusal("root@a:2,me@A:3"),
            "host `A` is listed more than once; list it once with all its slots, e.g. `me@A:5`"
        );
        assert!(refusal("[fd00::2]:1,[fd00:0:0::2]:1").ends_with("e.g. `[fd00::2]:2`"));
    }

    proptest! {
        #[test]
        fn what_a_host_prints_is_read_as_that_host(
            user in proptest::option::of("[a-z_][a-z0-9_.-]{0,8}"),
            name in "[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,12}",
            address in proptest::option::of(any::<u128>()),
            slots in 0..=SLOTS_LIMIT,
        ) {
            let name = address.map_or(name, |bits| Ipv6Addr::from_bits(bits).to_string());
            let name = user.map_or(name.clone(), |user| format!("{user}@{name}"));
            let host = Host { name, slots };
            prop_assert_eq!(parse_hosts(&host.to_string()).unwrap(), [host]);
        }

        #[test]
        fn no_text_makes_the_parser_panic_or_give_ssh_an_option(text in "[-a@:.0\\[\\]%, é]{0,12}") {
            for host in parse_hosts(&text).into_iter().flatten() {
                prop_assert!(!host.name.starts_with('-') && !host.hostname().starts_with('-'));
            }
        }
    }

    #[test]
    fn a_host_listed_twice_is_refused_with_the_sum() {
        assert_eq!(
            refusal("a:2,b:1,a:3"),
            "host `a` is listed more than once; list it once with all its slots, e.g. `a:5`"
        );
    }
}
