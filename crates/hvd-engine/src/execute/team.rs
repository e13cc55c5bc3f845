//! The ranks that execute an operation together, and how they are spread over hosts.

use std::sync::Arc;

use hvd_types::{Rank, Topology};

/// Which operations go by way of hosts: inside each host first, then between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hierarchy {
    /// Allreduce does.
    pub allreduce: bool,
    /// Allgather does.
    pub allgather: bool,
}

/// The members of a process set as the executor sees them.
#[derive(Debug)]
pub(crate) struct Team {
    /// Ascending.
    pub(crate) members: Arc<[Rank]>,
    /// The hosts, if it makes sense to go by way of them.
    pub(crate) hosts: Option<Topology>,
}

impl Team {
    /// A team of `members` in a job.
    pub(crate) fn new(members: Arc<[Rank]>, job: &Topology) -> Self {
        let hosts = by_host(&members, job);
        Self { members, hosts }
    }
}

/// The members by host; `None` if there is only one host, or nowhere two ranks on one.
fn by_host(members: &[Rank], job: &Topology) -> Option<Topology> {
    let topology = job.restricted_to(members)?;
    let hosts = topology.host_count();
    (hosts > 1 && hosts < members.len()).then_some(topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(names: &[&str], members: &[u32]) -> Team {
        let members = members.iter().copied().map(Rank::new).collect();
        Team::new(members, &Topology::new(names.iter().copied()))
    }

    #[test]
    fn ranks_are_grouped_by_the_hosts_of_their_set() {
        let hosts = team(&["a", "b", "a", "b"], &[0, 1, 2]).hosts.unwrap();
        assert_eq!(hosts.host_count(), 2);
        let local: Vec<u32> = hosts
            .local_group(Rank::new(0))
            .iter()
            .map(|rank| rank.number())
            .collect();
        assert_eq!(local, [0, 2]);
    }

    #[test]
    fn where_it_gains_nothing_there_is_no_hierarchy() {
        assert_eq!(team(&["a", "a"], &[0, 1]).hosts, None, "one host");
        let spread = team(&["a", "b", "a"], &[0, 1]);
        assert_eq!(spread.hosts, None, "one rank on each");
        let chosen = team(&["a", "a", "b"], &[0, 1, 2]);
        assert!(chosen.hosts.is_some());
    }
}
