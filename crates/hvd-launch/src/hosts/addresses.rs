//! Which address each host uses to reach each other host: a pure choice from what the hosts say of
//! themselves and from what their probes found. Never by interface name: a name says nothing about
//! another host, an answered probe does.
//!
//! For each ordered pair of hosts the first address of this order whose probe was answered:
//!
//! 1. addresses of `--advertise`;
//! 2. addresses the host's name resolved to;
//! 3. the other addresses of its interfaces, in the order it reported them;
//! 4. addresses of bridges for containers and virtual machines, which every host may have alike.
//!
//! Loopback and link-local addresses, and interfaces that are down, are never used between hosts.
//! Round-trip times do not decide: they differ from run to run, and the plan should not.
//! Nothing here opens a connection; texts are in `matrix.rs` and `diagnosis.rs`.

mod diagnosis;
mod matrix;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// Beginnings of the names of bridges and their ends.
const BRIDGES: &[&str] = &[
    "docker", "br-", "virbr", "cni", "veth", "lxc", "lxdbr", "podman",
];

/// One address of one interface of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The address.
    pub address: IpAddr,
    /// Name of the interface.
    pub interface: String,
    /// Whether the interface is up.
    pub up: bool,
}

/// What is known of the addresses of one host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostAddresses {
    /// The host's name as ranks see it.
    pub name: String,
    /// What `--advertise` says of it, first choice first; need not be on an interface of it.
    pub advertised: Vec<IpAddr>,
    /// What its name resolved to on the driver; need not be on an interface of it either.
    pub resolved: Vec<IpAddr>,
    /// Its interfaces' addresses, as its agent reports them.
    pub candidates: Vec<Candidate>,
    /// Whether it is a container.
    pub is_container: bool,
}

/// The outcome of one probe. Hosts are positions in the list given to [`choose`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Who asked.
    pub from: usize,
    /// Who should have answered.
    pub to: usize,
    /// Where it was asked.
    pub address: IpAddr,
    /// The round trip, or why there was none; an answer of another machine counts as none, e.g.
    /// `answered as another host`.
    pub result: Result<Duration, String>,
}

/// What the user said about addresses and ports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressRules {
    /// `--network-interfaces`; empty means all.
    pub interfaces: Vec<String>,
    /// `--port-range`, first and last; only for the texts.
    pub port_range: Option<(u16, u16)>,
}

/// How good an address looks before it is tried; the order is that of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressClass {
    /// From `--advertise`.
    Advertised,
    /// What the host's name resolved to.
    Named,
    /// On an interface of the host.
    Ordinary,
    /// On a bridge for containers or virtual machines.
    Bridge,
}

/// An address worth a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressTarget {
    /// The address.
    pub address: IpAddr,
    /// The host's interface that has it, if one has.
    pub interface: Option<String>,
    /// Why it is in the list, and where.
    pub class: AddressClass,
}

/// The addresses at which others should try to reach `host`, best first, each once.
pub fn targets(host: &HostAddresses, rules: &AddressRules) -> Vec<AddressTarget> {
    let owner = |address: IpAddr| {
        let mut up = host.candidates.iter().filter(|candidate| candidate.up);
        up.find(|candidate| candidate.address.to_canonical() == address)
    };
    let named = host
        .resolved
        .iter()
        .map(|address| (*address, AddressClass::Named));
    let own = host.candidates.iter().filter(|candidate| candidate.up);
    let own = own.map(|candidate| (candidate.address, class_of(&candidate.interface)));
    let advertised = host.advertised.iter();
    let advertised = advertised.map(|address| (*address, AddressClass::Advertised));
    let mut found: Vec<_> = advertised.chain(named).chain(own).collect();
    found.sort_by_key(|(_, class)| *class);

    let mut seen = BTreeSet::new();
    let mut targets = Vec::new();
    for (address, class) in found {
        let address = address.to_canonical();
        let interface = owner(address).map(|candidate| candidate.interface.clone());
        let is_allowed = class == AddressClass::Advertised
            || rules.interfaces.is_empty()
            || interface
                .as_ref()
                .is_some_and(|name| rules.interfaces.contains(name));
        if is_allowed && is_usable(address) && seen.insert(address) {
            targets.push(AddressTarget {
                address,
                interface,
                class,
            });
        }
    }
    targets
}

fn class_of(interface: &str) -> AddressClass {
    if BRIDGES.iter().any(|bridge| interface.starts_with(bridge)) {
        AddressClass::Bridge
    } else {
        AddressClass::Ordinary
    }
}

/// Whether an address can mean one host to another one.
fn is_usable(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !is_local && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

/// Who reaches whom and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reachability {
    hosts: Vec<HostAddresses>,
    targets: Vec<Vec<AddressTarget>>,
    routes: Vec<HostRoute>,
    rules: AddressRules,
}

/// What was found for one ordered pair of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoute {
    /// Who connects, as a position in the list of hosts.
    pub from: usize,
    /// Who is connected to.
    pub to: usize,
    /// The address to use, or all that was tried.
    pub outcome: RouteOutcome,
}

/// The end of the search for one pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteOutcome {
    /// This address answers.
    Reached {
        /// The address.
        address: IpAddr,
        /// The round trip of its probe.
        round_trip: Duration,
    },
    /// None does; each address with its reason, best first. Empty if there was none to try.
    Failed(Vec<(IpAddr, String)>),
}

/// Chooses an address for each ordered pair of different hosts. The same input gives the same
/// choice, in whatever order the probes came in.
pub fn choose(hosts: &[HostAddresses], probes: &[Probe], rules: &AddressRules) -> Reachability {
    let mut results: BTreeMap<(usize, usize, IpAddr), &Result<Duration, String>> = BTreeMap::new();
    for probe in probes {
        let key = (probe.from, probe.to, probe.address.to_canonical());
        let best = results.entry(key).or_insert(&probe.result);
        // Any answer beats any failure, and a faster one a slower one; `Ok` sorts first.
        if probe.result < **best {
            *best = &probe.result;
        }
    }
    let targets: Vec<_> = hosts.iter().map(|host| targets(host, rules)).collect();
    let mut routes = Vec::new();
    for from in 0..hosts.len() {
        for (to, targets) in targets.iter().enumerate().filter(|(to, _)| *to != from) {
            let result = |target: &AddressTarget| {
                let key = (from, to, target.address);
                (target.address, results.get(&key).copied())
            };
            let outcome = search(targets.iter().map(result));
            routes.push(HostRoute { from, to, outcome });
        }
    }
    Reachability {
        hosts: hosts.to_vec(),
        targets,
        routes,
        rules: rules.clone(),
    }
}

/// The first address that answers.
fn search<'a>(
    tried: impl Iterator<Item = (IpAddr, Option<&'a Result<Duration, String>>)>,
) -> RouteOutcome {
    let mut failed = Vec::new();
    for (address, result) in tried {
        match result {
            Some(Ok(round_trip)) => {
                return RouteOutcome::Reached {
                    address,
                    round_trip: *round_trip,
                };
            }
            Some(Err(reason)) => failed.push((address, reason.clone())),
            None => failed.push((address, "no answer in time".to_owned())),
        }
    }
    RouteOutcome::Failed(failed)
}

impl Reachability {
    /// All ordered pairs: first by who connects, then by who is connected to.
    pub fn routes(&self) -> &[HostRoute] {
        &self.routes
    }

    /// The address `from` uses to reach `to`.
    pub fn address(&self, from: usize, to: usize) -> Option<IpAddr> {
        match self.outcome(from, to)? {
            RouteOutcome::Reached { address, .. } => Some(*address),
            RouteOutcome::Failed(_) => None,
        }
    }

    /// Whether every host reaches every other.
    pub fn is_complete(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The pairs without an address.
    pub fn failures(&self) -> impl Iterator<Item = &HostRoute> {
        let is_failed = |route: &&HostRoute| matches!(route.outcome, RouteOutcome::Failed(_));
        self.routes.iter().filter(is_failed)
    }

    /// Whether `from` has an address for `to`.
    fn reaches(&self, from: usize, to: usize) -> bool {
        matches!(self.outcome(from, to), Some(RouteOutcome::Reached { .. }))
    }

    fn outcome(&self, from: usize, to: usize) -> Option<&RouteOutcome> {
        self.route(from, to).map(|route| &route.outcome)
    }

    /// Found by its position: the routes of each host stand together, without one to itself.
    fn route(&self, from: usize, to: usize) -> Option<&HostRoute> {
        if from == to {
            return None;
        }
        let row = from * self.hosts.len().saturating_sub(1);
        self.routes.get(row + to - usize::from(to > from))
    }

    fn name(&self, host: usize) -> &str {
        &self.hosts[host].name
    }
}

#[cfg(test)]
mod tests;
