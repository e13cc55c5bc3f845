//! Which ranks share a host: the local and cross groups of a job or of a process set.
//!
//! Built once from the host name of every rank; a process set has a topology of its own
//! ([`Topology::restricted_to`]). Queries compare numbers only, never host names.
//!
//! - `TOPO-1` hosts are numbered in the order of their lowest ranks.
//! - `TOPO-2` a *local group* is the ranks of one host, ascending. The first one leads the host.
//! - `TOPO-3` a *cross group* is the ranks with the same local rank, one of each host that has so
//!   many ranks, in the order of the hosts. The leaders of all hosts are the first cross group.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Rank;

#[cfg(test)]
mod tests;

/// What [`Topology::host_name`] returns for a rank that it does not contain.
const UNKNOWN_HOST: &str = "unknown";

/// Ranks grouped by host. Clones share one copy. The default is a topology of no ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    groups: Arc<Groups>,
}

#[derive(Debug, PartialEq, Eq, Default)]
struct Groups {
    /// Ascending.
    members: Vec<Rank>,
    /// By position among the members.
    locations: Vec<Location>,
    /// By host.
    names: Vec<Arc<str>>,
    /// By host.
    local: Vec<Vec<Rank>>,
    /// By local rank.
    cross: Vec<Vec<Rank>>,
}

/// Where a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Number of its host.
    pub host: usize,
    /// Position in its local group.
    pub local_rank: usize,
    /// Position in its cross group.
    pub cross_rank: usize,
}

impl Topology {
    /// The topology of a job, from the host name of every rank.
    pub fn new<N: Into<Arc<str>>>(hosts: impl IntoIterator<Item = N>) -> Self {
        let hosts = hosts.into_iter().enumerate();
        Self::from_members(hosts.map(|(rank, host)| (Rank::from_index(rank), host.into())))
    }

    /// The topology of some of these ranks, in any order; `None` if one of them is not among these
    /// ranks or is named twice.
    #[must_use]
    pub fn restricted_to(&self, ranks: &[Rank]) -> Option<Self> {
        if ranks == self.members() {
            return Some(self.clone());
        }
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        let named = |&rank: &Rank| {
            let host = self.location(rank)?.host;
            Some((rank, Arc::clone(&self.groups.names[host])))
        };
        let members: Vec<_> = ranks.iter().map(named).collect::<Option<_>>()?;
        let distinct = ranks.windows(2).all(|pair| pair[0] < pair[1]);
        distinct.then(|| Self::from_members(members))
    }

    /// From ascending ranks with their hosts.
    fn from_members(hosts: impl IntoIterator<Item = (Rank, Arc<str>)>) -> Self {
        let mut numbers: HashMap<Arc<str>, usize> = HashMap::new();
        let (mut members, mut locations) = (Vec::new(), Vec::new());
        let (mut names, mut local, mut cross) = (Vec::new(), Vec::new(), Vec::<Vec<Rank>>::new());
        for (rank, name) in hosts {
            let host = *numbers.entry(name).or_insert_with_key(|name| {
                names.push(Arc::clone(name));
                local.push(Vec::new());
                names.len() - 1
            });
            let local_rank = local[host].len();
            local[host].push(rank);
            members.push(rank);
            locations.push(Location {
                host,
                local_rank,
                cross_rank: 0,
            });
        }
        // A cross group follows the order of the hosts, not that of the ranks.
        let mut cross_ranks: Vec<Vec<usize>> = Vec::with_capacity(local.len());
        for ranks in &local {
            let longest = cross.len().max(ranks.len());
            cross.resize_with(longest, Vec::new);
            let groups = cross.iter_mut().zip(ranks);
            let positions = groups.map(|(group, &rank)| {
                group.push(rank);
                group.len() - 1
            });
            cross_ranks.push(positions.collect());
        }
        for location in &mut locations {
            location.cross_rank = cross_ranks[location.host][location.local_rank];
        }
        Self {
            groups: Arc::new(Groups {
                members,
                locations,
                names,
                local,
                cross,
            }),
        }
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.groups.members.len()
    }

    /// All ranks, ascending.
    pub fn members(&self) -> &[Rank] {
        &self.groups.members
    }

    /// The position of a rank among the members.
    pub fn position(&self, rank: Rank) -> Option<usize> {
        // In a job, which is what most topologies are of, it is the rank itself.
        if self.groups.members.get(rank.index()) == Some(&rank) {
            return Some(rank.index());
        }
        self.groups.members.binary_search(&rank).ok()
    }

    /// Number of hosts.
    pub fn host_count(&self) -> usize {
        self.groups.local.len()
    }

    /// Whether all hosts have equally many ranks.
    pub fn is_homogeneous(&self) -> bool {
        let mut counts = self.groups.local.iter().map(Vec::len);
        let first = counts.next();
        counts.all(|count| Some(count) == first)
    }

    /// Where a member is.
    pub fn location(&self, rank: Rank) -> Option<Location> {
        self.position(rank).map(|at| self.groups.locations[at])
    }

    /// The name of a rank's host, for messages: `unknown` if the rank is not a member.
    pub fn host_name(&self, rank: Rank) -> &str {
        let location = self.location(rank);
        location.map_or(UNKNOWN_HOST, |at| &self.groups.names[at.host])
    }

    /// Whether two members are on the same host.
    pub fn share_host(&self, one: Rank, other: Rank) -> bool {
        let host = |rank| self.location(rank).map(|location| location.host);
        host(one).is_some() && host(one) == host(other)
    }

    /// The lowest rank on a member's host.
    pub fn leader_of(&self, rank: Rank) -> Option<Rank> {
        self.local_group(rank).first().copied()
    }

    /// The leaders of all hosts.
    pub fn leaders(&self) -> &[Rank] {
        self.groups.cross.first().map_or(&[], Vec::as_slice)
    }

    /// The ranks on a member's host, itself included; empty for a rank that is not a member.
    pub fn local_group(&self, rank: Rank) -> &[Rank] {
        let location = self.location(rank);
        location.map_or(&[], |at| &self.groups.local[at.host])
    }

    /// The ranks with a member's local rank, itself included; empty for a rank that is not a member.
    pub fn cross_group(&self, rank: Rank) -> &[Rank] {
        let location = self.location(rank);
        location.map_or(&[], |at| &self.groups.cross[at.local_rank])
    }

    /// The local groups, by host.
    pub fn local_groups(&self) -> &[Vec<Rank>] {
        &self.groups.local
    }

    /// The cross groups, by local rank.
    pub fn cross_groups(&self) -> &[Vec<Rank>] {
        &self.groups.cross
    }
}
