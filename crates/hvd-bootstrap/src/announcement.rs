//! What rank 0 tells the others through the launcher: where its key-value store listens, and the
//! job's key.
//!
//! ```text
//! horovod1,KEY,PORT,HOST,ADDRESS,ADDRESS...
//! ```
//!
//! KEY is 64 hexadecimal digits, HOST a number that is the same for ranks of rank 0's host. No
//! spaces, no `=`, at most 1000 bytes: what PMI passes on.

use std::net::IpAddr;

use hvd_rendezvous::JobKey;

use crate::{Error, Result};

/// The first word; another version of the format has another one.
const FORMAT: &str = "horovod1";

/// PMI-1 of MPICH takes 1024 bytes with the final zero.
const LIMIT: usize = 1000;

/// Where the store of rank 0 is.
#[derive(Debug, Clone)]
pub(crate) struct Announcement {
    pub(crate) key: JobKey,
    pub(crate) port: u16,
    /// Equal on all ranks of rank 0's host.
    pub(crate) host: u64,
    /// Best first; those that do not fit are left out.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Announcement {
    pub(crate) fn encode(&self) -> String {
        let (key, port, host) = (self.key.to_hex(), self.port, self.host);
        let mut text = format!("{FORMAT},{key},{port},{host:x}");
        for address in &self.addresses {
            let address = address.to_string();
            if text.len() + 1 + address.len() > LIMIT {
                break;
            }
            text.push(',');
            text.push_str(&address);
        }
        text
    }

    pub(crate) fn decode(text: &str) -> Result<Self> {
        Self::parse(text).ok_or(Error::Announcement)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim().split(',');
        (words.next()? == FORMAT).then_some(())?;
        let key = JobKey::from_hex(words.next()?).ok()?;
        let port = words.next()?.parse().ok()?;
        let host = u64::from_str_radix(words.next()?, 16).ok()?;
        let addresses: Option<Vec<IpAddr>> = words.map(|word| word.parse().ok()).collect();
        Some(Self {
            key,
            port,
            host,
            addresses: addresses?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(addresses: Vec<IpAddr>) -> Announcement {
        Announcement {
            key: JobKey::generate().unwrap(),
            port: 40123,
            host: 0xfeed,
            addresses,
        }
    }

    #[test]
    fn comes_back_as_it_was_sent() {
        let sent = announcement(vec![
            "10.0.0.1".parse().unwrap(),
            "fd00::2".parse().unwrap(),
        ]);
        let text = sent.encode();
        assert!(!text.contains([' ', '=', '\n']), "{text}");
        let received = Announcement::decode(&text).unwrap();
        assert_eq!(received.key.to_hex(), sent.key.to_hex());
        assert_eq!((received.port, received.host), (sent.port, sent.host));
        assert_eq!(received.addresses, sent.addresses);
    }

    #[test]
    fn many_addresses_are_cut_at_the_limit() {
        let many = (0..200).map(|n| IpAddr::from([10, 0, 1, n])).collect();
        let text = announcement(many).encode();
        assert!(text.len() <= LIMIT);
        let received = Announcement::decode(&text).unwrap();
        assert!(received.addresses.len() > 50);
    }

    #[test]
    fn anything_else_is_refused() {
        let text = announcement(Vec::new()).encode();
        for damaged in [
            "",
            "horovod2",
            &text[1..],
            &text[..60],
            &format!("{text},x"),
        ] {
            let error = Announcement::decode(damaged).unwrap_err();
            assert!(matches!(error, Error::Announcement), "{damaged}");
        }
    }
}
