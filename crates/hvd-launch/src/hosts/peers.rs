//! The same probes as the driver's survey, for ranks that another launcher started and that have no
//! driver: the first rank of each host tries the other hosts itself.

use std::{
    io,
    net::IpAddr,
    sync::mpsc,
    time::{Duration, Instant},
};

use hvd_rendezvous::JobKey;

use super::{
    addresses::{AddressRules, Candidate, HostAddresses, Probe, targets},
    facts::is_container,
    interfaces::interfaces,
    measure::{PROBE_TIMEOUT, probe_all},
    probe::{ProbePort, ProbeTarget},
};
use crate::error::Result;

/// How much longer better addresses may take once every host is reached somehow.
const GRACE: Duration = Duration::from_millis(150);

/// A port at which other hosts can try to reach this one, until it is dropped.
#[derive(Debug)]
pub struct PeerPort(ProbePort);

impl PeerPort {
    /// Listens at all addresses, on a port of `range` if there is one; callers that know `key` are
    /// told this host's `number`.
    pub fn open(range: Option<(u16, u16)>, key: &JobKey, number: u32) -> Result<Self> {
        ProbePort::open(range, key, number).map(Self)
    }

    /// The port.
    pub fn number(&self) -> u16 {
        self.0.number()
    }
}

/// The addresses of this host, which others know by `name`.
pub fn own_addresses(name: String) -> io::Result<HostAddresses> {
    let candidate = |interface: super::interfaces::Interface| Candidate {
        address: interface.address,
        interface: interface.name,
        up: interface.up,
    };
    Ok(HostAddresses {
        name,
        advertised: Vec::new(),
        resolved: Vec::new(),
        candidates: interfaces()?.into_iter().map(candidate).collect(),
        is_container: is_container(),
    })
}

/// Tries the addresses of all hosts but the one at position `own`, whose ports are given in the same
/// order. Returns when the best address of each is known, or after a few seconds.
pub fn probe_peers(
    own: usize,
    hosts: &[HostAddresses],
    ports: &[u16],
    key: &JobKey,
    rules: &AddressRules,
) -> Vec<Probe> {
    let wanted: Vec<Vec<IpAddr>> = hosts
        .iter()
        .map(|host| targets(host, rules).iter().map(|one| one.address).collect())
        .collect();
    let mut tried = Vec::new();
    for (to, addresses) in wanted.iter().enumerate().filter(|(to, _)| *to != own) {
        let host = u32::try_from(to).unwrap_or(u32::MAX);
        // The last is taken first.
        tried.extend(addresses.iter().rev().map(|&address| ProbeTarget {
            host,
            address: (address, ports[to]).into(),
        }));
    }
    let (sender, answers) = mpsc::channel();
    probe_all(tried, key, move |target, result| {
        // If nobody listens, all that was needed is known.
        let _ = sender.send((target, result));
    });
    let mut probes: Vec<Probe> = Vec::new();
    let mut end = Instant::now() + PROBE_TIMEOUT + GRACE;
    let mut is_enough = false;
    while !is_complete(own, &wanted, &probes) {
        let left = end.saturating_duration_since(Instant::now());
        let Ok((target, result)) = answers.recv_timeout(left) else {
            break;
        };
        probes.push(Probe {
            from: own,
            to: target.host as usize,
            address: target.address.ip(),
            result: result.map_err(|failure| failure.to_string()),
        });
        if !is_enough && is_every_host_reached(own, hosts.len(), &probes) {
            is_enough = true;
            end = end.min(Instant::now() + GRACE);
        }
    }
    probes
}

/// Whether no better answer can come: up to the first address that works, all are known.
fn is_complete(own: usize, wanted: &[Vec<IpAddr>], probes: &[Probe]) -> bool {
    let answer = |to: usize, address: IpAddr| {
        let mut probes = probes.iter();
        let probe = probes.find(|probe| probe.to == to && probe.address == address);
        probe.map(|probe| probe.result.is_ok())
    };
    let is_known = |(to, addresses): (usize, &Vec<IpAddr>)| {
        to == own
            || addresses
                .iter()
                .map(|&address| answer(to, address))
                .find(|answer| *answer != Some(false))
                .is_none_or(|answer| answer == Some(true))
    };
    wanted.iter().enumerate().all(is_known)
}

fn is_every_host_reached(own: usize, hosts: usize, probes: &[Probe]) -> bool {
    let is_reached = |to| {
        let mut probes = probes.iter();
        to == own || probes.any(|probe| probe.to == to && probe.result.is_ok())
    };
    (0..hosts).all(is_reached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::choose;

    /// A host that is reached by the loopback address through `--advertise`-like knowledge only:
    /// ordinary rules drop loopback, so the tests use the address of this machine, if it has one.
    fn host(name: &str) -> HostAddresses {
        own_addresses(name.to_owned()).unwrap()
    }

    #[test]
    fn hosts_that_answer_are_reached_and_others_are_not() {
        let key = JobKey::generate().unwrap();
        let hosts = [host("a"), host("b")];
        if targets(&hosts[1], &AddressRules::default()).is_empty() {
            return;
        }
        let port = PeerPort::open(None, &key, 1).unwrap();
        let rules = AddressRules::default();
        let probes = probe_peers(0, &hosts, &[0, port.number()], &key, &rules);
        assert!(choose(&hosts, &probes, &rules).address(0, 1).is_some());
        let stranger = JobKey::generate().unwrap();
        let probes = probe_peers(0, &hosts, &[0, port.number()], &stranger, &rules);
        assert!(choose(&hosts, &probes, &rules).address(0, 1).is_none());
    }
}
