//! Which ranks share a host. Worked out once per job or process set, not per operation; owns the
//! lists of ranks that the hierarchical collectives form groups of.

use hvd_transport::Transport;
use hvd_types::Rank;

use crate::{Error, Result};

/// Ranks grouped by host, each of them on one host.
///
/// A rank's *local group* is the ranks of its host. Its *cross group* is the ranks with the same
/// position in their local group, of every host that has so many; the first ones, called leaders,
/// are a cross group with a member on every host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// All ranks, ascending; a position in this list is what `parts` lists contain.
    members: Vec<Rank>,
    /// For each member, its host and its position there.
    places: Vec<Place>,
    local: Grouping,
    cross: Grouping,
}

/// A way to divide the members into groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Grouping {
    ranks: Vec<Vec<Rank>>,
    /// The same as positions among all members.
    parts: Vec<Vec<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: usize,
    pub(super) local: usize,
}

impl Hosts {
    /// All ranks of a job, from the number of each rank's host. The numbers need not be without
    /// gaps; hosts are in the order in which they occur.
    pub fn from_indexes(host_of: &[usize]) -> Result<Self> {
        let mut order = Vec::new();
        let mut groups: Vec<Vec<Rank>> = Vec::new();
        for (rank, host) in host_of.iter().enumerate() {
            let known = order.iter().position(|&other| other == host);
            let at = known.unwrap_or_else(|| {
                order.push(host);
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[at].push(Rank::from_index(rank));
        }
        Self::from_groups(groups)
    }

    /// The ranks of each host, in the order in which they are to be numbered there. They may be
    /// some of a job's ranks.
    pub fn from_groups(groups: Vec<Vec<Rank>>) -> Result<Self> {
        let no_ranks = groups.iter().position(Vec::is_empty);
        if let Some(host) = no_ranks.or(groups.is_empty().then_some(0)) {
            return Err(Error::EmptyHost { host });
        }
        let mut placed: Vec<(Rank, Place)> = Vec::new();
        for (host, ranks) in groups.iter().enumerate() {
            let places = ranks.iter().enumerate();
            placed.extend(places.map(|(local, &rank)| (rank, Place { host, local })));
        }
        placed.sort_unstable_by_key(|&(rank, _)| rank);
        if let Some(twice) = placed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::DuplicateRank { rank: twice[0].0 });
        }
        let members: Vec<Rank> = placed.iter().map(|&(rank, _)| rank).collect();
        let longest = groups.iter().map(Vec::len).max().unwrap_or(0);
        let cross = (0..longest)
            .map(|local| {
                groups
                    .iter()
                    .filter_map(move |ranks| ranks.get(local))
                    .copied()
            })
            .map(Iterator::collect)
            .collect();
        Ok(Self {
            local: Grouping::new(groups, &members),
            cross: Grouping::new(cross, &members),
            places: placed.iter().map(|&(_, place)| place).collect(),
            members,
        })
    }

    /// All ranks, ascending.
    pub fn members(&self) -> &[Rank] {
        &self.members
    }

    /// Number of hosts.
    pub fn hosts(&self) -> usize {
        self.local.ranks.len()
    }

    /// Whether every host has the same number of ranks.
    pub fn is_homogeneous(&self) -> bool {
        let mut counts = self.local.ranks.iter().map(Vec::len);
        let first = counts.next();
        counts.all(|count| Some(count) == first)
    }

    /// The ranks of a rank's host, in their order.
    pub fn local_group(&self, rank: Rank) -> Result<&[Rank]> {
        Ok(&self.local.ranks[self.place(rank)?.host])
    }

    /// The ranks at a rank's position, of every host that has it, in order of hosts.
    pub fn cross_group(&self, rank: Rank) -> Result<&[Rank]> {
        Ok(&self.cross.ranks[self.place(rank)?.local])
    }

    /// The first rank of each host.
    pub fn leaders(&self) -> &[Rank] {
        &self.cross.ranks[0]
    }

    /// Positions among all members of each host's ranks.
    pub(super) fn local_parts(&self) -> &[Vec<usize>] {
        &self.local.parts
    }

    /// Positions among all members of each cross group's ranks.
    pub(super) fn cross_parts(&self) -> &[Vec<usize>] {
        &self.cross.parts
    }

    /// The place of a rank, which must be one of the members.
    pub(super) fn place(&self, rank: Rank) -> Result<Place> {
        let stranger = Error::NotAMember {
            rank,
            members: self.members.len(),
        };
        let found = self.members.binary_search(&rank);
        found.map(|at| self.places[at]).map_err(|_| stranger)
    }

    /// The place of the transport's own rank. Fails, on all ranks alike, if the transport does not
    /// reach all members.
    pub(super) fn own_place(&self, transport: &dyn Transport) -> Result<Place> {
        let size = transport.size();
        if let Some(&rank) = self.members.last().filter(|rank| rank.index() >= size) {
            return Err(Error::UnknownRank { rank, size });
        }
        self.place(transport.rank())
    }
}

impl Grouping {
    fn new(ranks: Vec<Vec<Rank>>, members: &[Rank]) -> Self {
        let part = |rank| members.partition_point(|member| member < rank);
        let parts = ranks
            .iter()
            .map(|group| group.iter().map(part).collect())
            .collect();
        Self { ranks, parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks<const N: usize>(numbers: [u32; N]) -> Vec<Rank> {
        numbers.map(Rank::new).to_vec()
    }

    #[test]
    fn groups_follow_the_order_of_hosts_and_of_their_ranks() {
        let hosts = Hosts::from_indexes(&[7, 2, 7, 2, 7]).unwrap();
        assert_eq!(hosts.members(), ranks([0, 1, 2, 3, 4]));
        assert_eq!((hosts.hosts(), hosts.is_homogeneous()), (2, false));
        assert_eq!(hosts.leaders(), ranks([0, 1]));
        assert_eq!(hosts.local_group(Rank::new(3)).unwrap(), ranks([1, 3]));
        assert_eq!(hosts.cross_group(Rank::new(3)).unwrap(), ranks([2, 3]));
        assert_eq!(hosts.cross_group(Rank::new(4)).unwrap(), ranks([4]));
    }

    #[test]
    fn some_of_a_jobs_ranks_in_any_order() {
        let hosts = Hosts::from_groups(vec![ranks([9, 4]), ranks([2, 7])]).unwrap();
        assert_eq!(hosts.members(), ranks([2, 4, 7, 9]));
        assert!(hosts.is_homogeneous());
        assert_eq!(hosts.cross_group(Rank::new(7)).unwrap(), ranks([4, 7]));
        assert_eq!(hosts.local_parts(), [[3, 1], [0, 2]]);
        assert_eq!(hosts.cross_parts(), [[3, 0], [1, 2]]);
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        let refused = |groups| Hosts::from_groups(groups).unwrap_err().to_string();
        let empty = "host 0 has no ranks; list only hosts on which ranks run, and at least one";
        assert_eq!(refused(Vec::new()), empty);
        assert_eq!(Hosts::from_indexes(&[]).unwrap_err().to_string(), empty);
        assert_eq!(
            refused(vec![ranks([0]), Vec::new()]),
            empty.replace("host 0", "host 1")
        );
        assert_eq!(
            refused(vec![ranks([0, 3]), ranks([1, 3])]),
            "rank 3 is listed twice; a rank runs on one host, and once"
        );
        let stranger = Hosts::from_indexes(&[0]).unwrap();
        assert_eq!(
            stranger.local_group(Rank::new(1)).unwrap_err().to_string(),
            "rank 1 is not one of the 1 members of the group; only members may call"
        );
    }
}
