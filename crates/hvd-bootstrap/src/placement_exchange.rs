//! All ranks in rank 0's store: they agree which of them share a host, and their hosts try each
//! other's addresses, as the agents of `horovodrun` do.
//!
//! 1. Every rank says where it runs; all decide alike who shares a host ([`crate::host`]).
//! 2. The first rank of each host opens a port and says at which addresses it may be.
//! 3. It tries those of all other hosts, and says what answered; all choose alike.

use std::time::{Duration, Instant};

use hvd_config::BootstrapConfig;
use hvd_launch::debug::JobRank;
use hvd_launch::hosts::{
    AddressRules, HostAddresses, PeerPort, Probe, choose, own_addresses, probe_peers,
};
use hvd_rendezvous::{Client, Error as StoreError, JobKey, Store, host_identity};
use hvd_types::{Placement, Rank, Topology, printable};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::detection::DetectedRank;
use crate::host::{HostOfRank, disagreement, host_names, placement};
use crate::{Error, Result};

/// What a rank has learned: its place, and at which address its host reaches each other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgreedPlacement {
    pub(crate) placement: Placement,
    /// As `HOROVOD_HOST_ADDRESSES` has it; none if there is one host only.
    pub(crate) routes: Option<String>,
    /// The processes of all ranks.
    pub(crate) ranks: Vec<JobRank>,
}

/// One host's addresses, from its first rank.
#[derive(Debug, Serialize, Deserialize)]
struct HostCard {
    addresses: HostAddresses,
    port: u16,
}

/// A rank among those that meet.
pub(crate) struct PlacementExchange<'a> {
    pub(crate) detected: &'a DetectedRank,
    pub(crate) size: u32,
    pub(crate) config: &'a BootstrapConfig,
    pub(crate) key: &'a JobKey,
    pub(crate) end: Instant,
}

impl PlacementExchange<'_> {
    /// Steps 1 to 3.
    pub(crate) fn meet(&self, store: &mut Client) -> Result<AgreedPlacement> {
        let location = self.location();
        let locations: Vec<HostOfRank> = self.exchange(store, "locations", &location)?;
        let names = host_names(&locations);
        let topology = Topology::new(names.iter().map(String::as_str));
        let placement = placement(self.detected.rank(), &topology);
        if placement.local_rank == 0
            && let Some(text) = disagreement(&placement, &location, self.detected.launcher.command)
        {
            tracing::warn!("{text}");
        }
        let routes = if placement.is_single_host() {
            None
        } else {
            Some(self.find_routes(store, &placement, &topology)?)
        };
        let processes = locations.iter().map(|location| location.process);
        let rank = |(process, host)| JobRank {
            pid: i32::try_from(process).unwrap_or_default(),
            host,
        };
        let ranks = processes.zip(names).map(rank).collect();
        Ok(AgreedPlacement {
            placement,
            routes,
            ranks,
        })
    }

    fn location(&self) -> HostOfRank {
        HostOfRank {
            identity: host_identity(),
            hostname: this_host(),
            node: self.detected.node.clone(),
            local_size: self.detected.local_size,
            process: std::process::id(),
        }
    }

    /// Steps 2 and 3.
    fn find_routes(
        &self,
        store: &mut Client,
        placement: &Placement,
        topology: &Topology,
    ) -> Result<String> {
        let leaders = topology.cross_group(topology.members()[0]).to_vec();
        let own_leader = topology.local_group(placement.rank)[0];
        let own = leaders
            .iter()
            .position(|&leader| leader == own_leader)
            .unwrap_or_default();
        let is_leader = own_leader == placement.rank;
        let port = is_leader.then(|| self.open_port(own)).transpose()?;
        let card = port
            .as_ref()
            .map(|port| card(placement, port))
            .transpose()?;
        let cards: Vec<Option<HostCard>> = self.exchange(store, "hosts", &card)?;
        let (addresses, ports): (Vec<HostAddresses>, Vec<u16>) = of_leaders(&leaders, cards)
            .map(|card| (card.addresses, card.port))
            .unzip();
        let rules = self.rules();
        let probes = is_leader.then(|| probe_peers(own, &addresses, &ports, self.key, &rules));
        let probes: Vec<Option<Vec<Probe>>> = self.exchange(store, "routes", &probes)?;
        let probes: Vec<Probe> = of_leaders(&leaders, probes).flatten().collect();
        let reachability = choose(&addresses, &probes, &rules);
        if !reachability.is_complete() {
            return Err(Error::Routes(
                printable(&reachability.report()).into_owned(),
            ));
        }
        let route = |to: usize| {
            let address = reachability.address(own, to)?;
            Some(format!("{}={address}", addresses[to].name))
        };
        let others = (0..leaders.len()).filter(|&to| to != own);
        Ok(others.filter_map(route).collect::<Vec<String>>().join(","))
    }

    fn open_port(&self, own: usize) -> Result<PeerPort> {
        let ports = self.config.port_range.as_ref();
        let ports = ports.map(|ports| (*ports.start(), *ports.end()));
        let identity = u32::try_from(own).unwrap_or(u32::MAX);
        PeerPort::open(ports, self.key, identity).map_err(|error| Error::Facility {
            rank: self.detected.rank(),
            facility: "their hosts' addresses".to_owned(),
            reason: error.to_string(),
        })
    }

    fn rules(&self) -> AddressRules {
        let ports = self.config.port_range.as_ref();
        AddressRules {
            interfaces: self.config.interfaces.clone(),
            port_range: ports.map(|ports| (*ports.start(), *ports.end())),
        }
    }

    /// By rank, what each one says.
    fn exchange<T: Serialize + DeserializeOwned>(
        &self,
        store: &mut Client,
        what: &str,
        own: &T,
    ) -> Result<Vec<T>> {
        let damaged = |_| Error::Announcement;
        let text = serde_json::to_vec(own).map_err(damaged)?;
        let left = self.end.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        let scope = format!("bootstrap/{what}");
        let texts = store
            .exchange(
                &scope,
                self.detected.rank(),
                self.size as usize,
                &text,
                left,
            )
            .map_err(|error| self.explain(error))?;
        texts
            .iter()
            .map(|text| serde_json::from_slice(text).map_err(damaged))
            .collect()
    }

    fn explain(&self, error: StoreError) -> Error {
        let (rank, size) = (self.detected.rank(), self.size);
        let missing = match &error {
            StoreError::MissingRanks { missing, .. } => missing,
            StoreError::Stopped | StoreError::Io { .. } => {
                return Error::FirstRankLeft { rank, size };
            }
            _ => return error.into(),
        };
        let ranks: Vec<String> = missing.iter().take(8).map(ToString::to_string).collect();
        let more = if missing.len() > ranks.len() {
            " and others"
        } else {
            ""
        };
        Error::Missing {
            rank,
            size,
            missing: format!("{} ranks ({}{more})", missing.len(), ranks.join(", ")),
            seconds: self.config.timeout.as_secs(),
            command: self.detected.launcher.command,
        }
    }
}

fn card(placement: &Placement, port: &PeerPort) -> Result<HostCard> {
    let addresses = own_addresses(placement.hostname.clone());
    let addresses = addresses.map_err(|source| Error::System {
        rank: placement.rank,
        doing: "list the network interfaces",
        source,
    })?;
    Ok(HostCard {
        addresses,
        port: port.number(),
    })
}

/// What the first rank of each host has said.
fn of_leaders<T>(leaders: &[Rank], by_rank: Vec<Option<T>>) -> impl Iterator<Item = T> {
    let is_leader = |rank: usize| leaders.contains(&Rank::from_index(rank));
    let said = by_rank
        .into_iter()
        .enumerate()
        .filter(move |(rank, _)| is_leader(*rank));
    said.filter_map(|(_, said)| said)
}

/// The name of this host.
pub(crate) fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name.to_owned()
    }
}
