//! Which ranks share a host, and what each host is called: a pure decision from what every rank
//! says of where it runs.
//!
//! - `HOST-1` ranks are on one host if they can share memory there and their launcher calls it by
//!   one name; several virtual nodes of Slurm on one machine are several hosts.
//! - `HOST-2` no two hosts have the same name.

use std::collections::{HashMap, HashSet};

use hvd_types::{Placement, Rank, Topology};
use serde::{Deserialize, Serialize};

/// Where one rank runs, as it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostOfRank {
    /// Equal for ranks that can share memory; none if this rank cannot tell.
    pub(crate) identity: Option<String>,
    /// The host's own name.
    pub(crate) hostname: String,
    /// What its launcher calls it.
    pub(crate) node: Option<String>,
    /// How many ranks its launcher says are there.
    pub(crate) local_size: Option<u32>,
    /// The number of its process there.
    pub(crate) process: u32,
}

/// By rank, the name of its host.
pub(crate) fn host_names(locations: &[HostOfRank]) -> Vec<String> {
    let mut names: HashMap<(Option<&str>, Option<&str>, usize), String> = HashMap::new();
    let mut taken = HashSet::new();
    let mut by_rank = Vec::with_capacity(locations.len());
    for (rank, location) in locations.iter().enumerate() {
        // Ranks that cannot tell where they are share nothing.
        let apart = if location.identity.is_none() {
            rank + 1
        } else {
            0
        };
        let host = (
            location.identity.as_deref(),
            location.node.as_deref(),
            apart,
        );
        let name = names
            .entry(host)
            .or_insert_with(|| new_name(location, &mut taken));
        by_rank.push(name.clone());
    }
    by_rank
}

fn new_name(location: &HostOfRank, taken: &mut HashSet<String>) -> String {
    let plain = location.node.as_ref().unwrap_or(&location.hostname);
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    // There are more numbers than hosts.
    let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
    taken.insert(name.clone());
    name
}

/// The place of a rank among ranks with these hosts.
pub(crate) fn placement(rank: Rank, topology: &Topology) -> Placement {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let position = |group: &[Rank]| {
        let found = group.iter().position(|&member| member == rank);
        number(found.unwrap_or_default())
    };
    let (local, cross) = (topology.local_group(rank), topology.cross_group(rank));
    Placement {
        rank,
        size: number(topology.size()),
        local_rank: position(local),
        local_size: number(local.len()),
        cross_rank: position(cross),
        cross_size: number(cross.len()),
        hostname: topology.host_name(rank).to_owned(),
    }
}

/// A warning if the launcher counts other ranks on this host than share it: separate containers, for
/// example, in which `local_rank()` does not tell GPUs apart.
pub(crate) fn disagreement(
    placement: &Placement,
    location: &HostOfRank,
    command: &str,
) -> Option<String> {
    let claimed = location
        .local_size
        .filter(|&claimed| claimed != placement.local_size)?;
    let Placement {
        rank,
        local_size,
        hostname,
        ..
    } = placement;
    Some(format!(
        "`{command}` says that {claimed} ranks run on the host of rank {rank}, `{hostname}`, but {local_size} \
         share its name and network: the others may be in containers of their own. hvd.local_rank() \
         counts only those that share it; start the containers with the host's network and host name \
         (docker run --network host --uts host) to have all of them counted"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(identity: &str, hostname: &str, node: Option<&str>) -> HostOfRank {
        HostOfRank {
            identity: Some(identity.to_owned()),
            hostname: hostname.to_owned(),
            node: node.map(str::to_owned),
            local_size: None,
            process: 1,
        }
    }

    #[test]
    fn ranks_of_one_host_are_found_wherever_they_stand() {
        let (a, b) = (location("1 a", "a", None), location("1 b", "b", None));
        let names = host_names(&[a.clone(), b.clone(), a, b]);
        assert_eq!(names, ["a", "b", "a", "b"]);
        let topology = Topology::new(names);
        let place = placement(Rank::new(3), &topology);
        assert_eq!((place.local_rank, place.local_size), (1, 2));
        assert_eq!((place.cross_rank, place.cross_size), (1, 2));
        assert_eq!((place.size, place.hostname.as_str()), (4, "b"));
    }

    #[test]
    fn host_1_virtual_nodes_of_one_machine_are_hosts() {
        let (one, two) = (
            location("m", "box", Some("n1")),
            location("m", "box", Some("n2")),
        );
        assert_eq!(host_names(&[one.clone(), one, two]), ["n1", "n1", "n2"]);
    }

    #[test]
    fn host_2_equal_names_of_different_hosts_are_numbered() {
        let mut lost = location("", "box", None);
        lost.identity = None;
        let ranks = [
            location("x", "box", None),
            location("y", "box", None),
            lost.clone(),
            lost,
        ];
        assert_eq!(host_names(&ranks), ["box", "box-2", "box-3", "box-4"]);
    }

    #[test]
    fn containers_that_hide_a_host_are_reported() {
        let mut here = location("x", "box", None);
        let topology = Topology::new(["box", "box-2"]);
        let place = placement(Rank::new(0), &topology);
        assert_eq!(disagreement(&place, &here, "mpirun"), None);
        here.local_size = Some(2);
        let text = disagreement(&place, &here, "mpirun").unwrap();
        assert!(
            text.starts_with("`mpirun` says that 2 ranks run on the host of rank 0"),
            "{text}"
        );
    }
}
