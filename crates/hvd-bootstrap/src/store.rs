//! The job's key-value store in rank 0, and the way of the other ranks to it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hvd_config::BootstrapConfig;
use hvd_launch::hosts::{AddressRules, own_addresses, targets};
use hvd_rendezvous::{Client, Error as StoreError, JobKey, Server, host_identity};
use hvd_types::Rank;

use crate::announcement::Announcement;
use crate::{Error, Result};

/// Between two attempts to reach a store that does not listen yet.
const RETRY: Duration = Duration::from_millis(50);

/// The store that rank 0 serves until it exits.
#[derive(Debug)]
pub(crate) struct JobStore {
    pub(crate) server: Server,
    pub(crate) announcement: Announcement,
}

/// Who may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Ranks of this host.
    ThisHost,
    /// Ranks of other hosts too.
    AllHosts,
}

/// Starts the store with a fresh key.
pub(crate) fn serve(config: &BootstrapConfig, reach: Reach) -> Result<JobStore> {
    let key = JobKey::generate()?;
    let ports = config.port_range.clone().unwrap_or(0..=0);
    let server = serve_at(&key, ports, reach)?;
    let addresses = match reach {
        Reach::ThisHost => vec![Ipv4Addr::LOCALHOST.into()],
        Reach::AllHosts => reachable_addresses(config)?,
    };
    let announcement = Announcement {
        key,
        port: server.address().port(),
        host: host_number(),
        addresses,
    };
    Ok(JobStore {
        server,
        announcement,
    })
}

/// The first port of a range at which the store can listen, from its end: ranks begin at its start.
pub(crate) fn serve_at(
    key: &JobKey,
    ports: std::ops::RangeInclusive<u16>,
    reach: Reach,
) -> Result<Server> {
    let mut failure = StoreError::NoStore;
    for port in ports.rev() {
        match listen(key, port, reach) {
            Ok(server) => return Ok(server),
            Err(error) => failure = error,
        }
    }
    Err(failure.into())
}

fn listen(key: &JobKey, port: u16, reach: Reach) -> hvd_rendezvous::Result<Server> {
    match reach {
        Reach::ThisHost => Server::start((Ipv4Addr::LOCALHOST, port), key),
        // Both families, or IPv4 alone where the kernel has nothing else.
        Reach::AllHosts => Server::start((Ipv6Addr::UNSPECIFIED, port), key)
            .or_else(|_| Server::start((Ipv4Addr::UNSPECIFIED, port), key)),
    }
}

/// This host's addresses, as far as other hosts may use them, best first.
fn reachable_addresses(config: &BootstrapConfig) -> Result<Vec<IpAddr>> {
    let rules = AddressRules {
        interfaces: config.interfaces.clone(),
        port_range: None,
    };
    let own = own_addresses(String::new()).map_err(|source| Error::System {
        rank: Rank::COORDINATOR,
        doing: "list the network interfaces",
        source,
    })?;
    Ok(targets(&own, &rules)
        .into_iter()
        .map(|target| target.address)
        .collect())
}

/// A number that ranks of one host have in common, and hardly any two hosts.
fn host_number() -> u64 {
    let mut hasher = DefaultHasher::new();
    host_identity().hash(&mut hasher);
    hasher.finish()
}

/// Connects to a store that listens at a given place, which it may not do yet.
pub(crate) fn connect_to(
    address: &str,
    port: u16,
    key: &JobKey,
    (rank, host): (Rank, &str),
    end: Instant,
) -> Result<Client> {
    // Nothing is ever sent: a wait that can end only by time.
    let (_sender, never) = mpsc::channel::<()>();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let failure = match Client::connect(address, port, key, left) {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        // Rank 0 may not have come so far; a wrong key will not become right.
        let may_come = matches!(&failure, StoreError::Io { .. });
        if !may_come || left <= RETRY {
            return Err(Error::Unreachable {
                rank,
                host: host.to_owned(),
                tried: format!("{address} port {port}: {failure}"),
            });
        }
        let _ = never.recv_timeout(RETRY);
    }
}

/// Connects to rank 0's store at the first of its addresses that answers with the right key, and
/// returns that address. All are tried at once: one that leads nowhere may take long to fail.
pub(crate) fn connect(
    announcement: &Announcement,
    (rank, host): (Rank, &str),
    end: Instant,
) -> Result<(Client, IpAddr)> {
    let addresses = if announcement.host == host_number() {
        vec![Ipv4Addr::LOCALHOST.into()]
    } else {
        announcement.addresses.clone()
    };
    let (sender, outcomes) = mpsc::channel();
    for &address in &addresses {
        let (key, port, sender) = (announcement.key.clone(), announcement.port, sender.clone());
        let attempt = move || {
            let left = end.saturating_duration_since(Instant::now());
            let connected = Client::connect(&address.to_string(), port, &key, left);
            // If nobody listens, another address has answered.
            let _ = sender.send((address, connected));
        };
        let spawned = thread::Builder::new()
            .name("hvd-find-store".to_owned())
            .spawn(attempt);
        spawned.map_err(StoreError::thread("hvd-find-store"))?;
    }
    drop(sender);
    let mut tried = Vec::new();
    // A moment longer than the attempts, so that their reasons are heard.
    let patience = end.saturating_duration_since(Instant::now()) + Duration::from_secs(1);
    let last = Instant::now() + patience;
    while let Ok((address, outcome)) =
        outcomes.recv_timeout(last.saturating_duration_since(Instant::now()))
    {
        match outcome {
            Ok(client) => return Ok((client, address)),
            Err(error) => tried.push(format!("{address} port {}: {error}", announcement.port)),
        }
    }
    Err(Error::Unreachable {
        rank,
        host: host.to_owned(),
        tried: if tried.is_empty() {
            "no address, because rank 0's host has none that others could use".to_owned()
        } else {
            tried.join("; ")
        },
    })
}
