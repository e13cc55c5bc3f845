//! Which hosts of a job are this machine: by name, or because a name leads to an address of ours. A
//! name that leads nowhere may still mean something to `ssh`, so it is taken for another host.

use std::{
    collections::HashSet,
    net::{IpAddr, ToSocketAddrs},
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use super::interfaces::interfaces;
use crate::{
    error::{Error, Result},
    process::spawn_detached,
};

/// How long a name server may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a host's name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) is_local: bool,
    /// Nothing if the name is unknown here.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Looks all names up at once.
pub(crate) async fn resolve(names: &[String]) -> Result<Vec<Resolved>> {
    let own = own_addresses()?;
    let this = this_machine();
    let lookups: Vec<_> = names
        .iter()
        .map(|name| (!is_local_name(name, &this)).then(|| look_up(name)))
        .collect();
    let mut resolved = Vec::new();
    for lookup in lookups {
        resolved.push(match lookup {
            None => Resolved {
                is_local: true,
                addresses: Vec::new(),
            },
            Some(answer) => {
                let addresses = timeout(TIMEOUT, answer).await;
                let addresses = addresses.ok().and_then(Result::ok).unwrap_or_default();
                Resolved {
                    is_local: addresses.iter().any(|address| own.contains(address)),
                    addresses,
                }
            }
        });
    }
    Ok(resolved)
}

/// Whether a name means this machine without a lookup.
pub(crate) fn is_local_name(name: &str, this: &str) -> bool {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = bare
        .parse()
        .is_ok_and(|address: IpAddr| address.is_loopback());
    let short = this.split('.').next().unwrap_or(this);
    name == "localhost" || is_loopback || name == this || name == short
}

/// The name of this machine.
pub(crate) fn this_machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// Asks the system's resolver on a thread of its own, which may never come back.
fn look_up(name: &str) -> oneshot::Receiver<Vec<IpAddr>> {
    let (sender, answer) = oneshot::channel();
    let name = name.rsplit('@').next().unwrap_or(name);
    let name = name.trim_matches(['[', ']']).to_owned();
    spawn_detached("hvd-resolve", move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        let addresses = found.map(|found| found.map(|address| address.ip()).collect());
        let _ = sender.send(addresses.unwrap_or_default());
    });
    answer
}

/// The addresses of this machine.
fn own_addresses() -> Result<HashSet<IpAddr>> {
    let all = interfaces().map_err(Error::system("list the network interfaces"))?;
    Ok(all.into_iter().map(|interface| interface.address).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_this_machine_by_its_names() {
        for name in [
            "localhost",
            "127.0.0.1",
            "127.1.2.3",
            "[::1]",
            "box",
            "box.lab",
        ] {
            assert!(is_local_name(name, "box.lab"), "{name}");
        }
        for name in ["far", "box2", "10.0.0.1", "fd00::1"] {
            assert!(!is_local_name(name, "box.lab"), "{name}");
        }
    }

    #[tokio::test]
    async fn an_unknown_name_is_another_host() {
        let names = ["localhost".to_owned(), "no-such-host.invalid".to_owned()];
        let resolved = resolve(&names).await.unwrap();
        assert!(resolved[0].is_local && !resolved[1].is_local);
        assert!(resolved[1].addresses.is_empty());
    }
}
