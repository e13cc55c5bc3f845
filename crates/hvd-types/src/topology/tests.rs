//! Examples, and a comparison with a model that looks at the names of all ranks for every question.

use proptest::prelude::*;

use super::*;

fn ranks<const N: usize>(numbers: [u32; N]) -> [Rank; N] {
    numbers.map(Rank::new)
}

#[test]
fn one_host() {
    let topology = Topology::new(["a", "a", "a"]);
    assert_eq!((topology.size(), topology.host_count()), (3, 1));
    assert_eq!(topology.local_group(Rank::new(1)), ranks([0, 1, 2]));
    assert_eq!(topology.cross_group(Rank::new(1)), ranks([1]));
    assert_eq!(topology.leaders(), ranks([0]));
    assert!(topology.is_homogeneous());
}

#[test]
fn topo_3_hosts_with_different_numbers_of_ranks() {
    let topology = Topology::new(["a", "a", "a", "b", "c", "c"]);
    assert_eq!(topology.cross_group(Rank::new(0)), ranks([0, 3, 4]));
    assert_eq!(topology.cross_group(Rank::new(1)), ranks([1, 5]));
    assert_eq!(topology.cross_group(Rank::new(2)), ranks([2]));
    assert_eq!(topology.local_group(Rank::new(5)), ranks([4, 5]));
    assert_eq!(topology.leader_of(Rank::new(5)), Some(Rank::new(4)));
    assert!(!topology.is_homogeneous());
}

#[test]
fn topo_1_hosts_are_in_the_order_of_their_lowest_ranks() {
    let topology = Topology::new(["z", "a", "a", "z", "z"]);
    assert_eq!(topology.leaders(), ranks([0, 1]));
    assert_eq!(
        topology.local_groups(),
        [vec![0, 3, 4], vec![1, 2]].map(to_ranks)
    );
    assert_eq!(topology.cross_group(Rank::new(3)), ranks([3, 2]));
    let location = topology.location(Rank::new(2)).unwrap();
    assert_eq!(
        (location.host, location.local_rank, location.cross_rank),
        (1, 1, 1)
    );
}

fn to_ranks(numbers: Vec<u32>) -> Vec<Rank> {
    numbers.into_iter().map(Rank::new).collect()
}

#[test]
fn a_process_set_has_a_topology_of_its_own() {
    let job = Topology::new(["a", "b", "a", "b", "c"]);
    let set = job.restricted_to(&ranks([4, 3, 2])).unwrap();
    assert_eq!(set.members(), ranks([2, 3, 4]));
    assert_eq!(set.leaders(), ranks([2, 3, 4]));
    assert_eq!(set.position(Rank::new(3)), Some(1));
    assert_eq!(set.host_name(Rank::new(3)), "b");
    assert!(set.is_homogeneous());
    assert_eq!(job.restricted_to(&ranks([1, 5])), None, "no such rank");
    assert_eq!(job.restricted_to(&ranks([1, 0, 1])), None, "named twice");
    assert_eq!(set.restricted_to(&ranks([0])), None, "not in the set");
}

#[test]
fn ranks_that_are_not_members_have_no_neighbors() {
    let topology = Topology::new(["a"]);
    let stranger = Rank::new(1);
    assert_eq!(topology.host_name(stranger), "unknown");
    assert_eq!(topology.local_group(stranger), []);
    assert_eq!(topology.cross_group(stranger), []);
    assert_eq!(topology.leader_of(stranger), None);
    assert!(!topology.share_host(stranger, stranger));
    let empty = Topology::new([""; 0]);
    assert_eq!((empty.size(), empty.host_count()), (0, 0));
    assert_eq!(empty.leaders(), []);
}

/// The same answers from the names alone.
struct Model(Vec<(Rank, String)>);

impl Model {
    fn name(&self, rank: Rank) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| *other == rank);
        found.map(|(_, name)| name.as_str())
    }

    fn local_group(&self, rank: Rank) -> Vec<Rank> {
        let own = self.name(rank);
        let shares = |(_, name): &&(Rank, String)| Some(name.as_str()) == own;
        self.0
            .iter()
            .filter(shares)
            .map(|&(rank, _)| rank)
            .collect()
    }

    fn local_rank(&self, rank: Rank) -> Option<usize> {
        self.local_group(rank)
            .iter()
            .position(|&other| other == rank)
    }

    fn leaders(&self) -> Vec<Rank> {
        let members = self.0.iter().map(|&(rank, _)| rank);
        members
            .filter(|&rank| self.local_rank(rank) == Some(0))
            .collect()
    }

    fn cross_group(&self, rank: Rank) -> Vec<Rank> {
        let Some(local_rank) = self.local_rank(rank) else {
            return Vec::new();
        };
        let leaders = self.leaders().into_iter();
        leaders
            .filter_map(|leader| self.local_group(leader).get(local_rank).copied())
            .collect()
    }

    fn compare(&self, topology: &Topology, size: usize) -> Result<(), TestCaseError> {
        let members: Vec<Rank> = self.0.iter().map(|&(rank, _)| rank).collect();
        prop_assert_eq!(topology.members(), &members[..]);
        prop_assert_eq!(topology.leaders(), &self.leaders()[..]);
        prop_assert_eq!(topology.host_count(), self.leaders().len());
        let sizes: Vec<usize> = self
            .leaders()
            .iter()
            .map(|&leader| self.local_group(leader).len())
            .collect();
        prop_assert_eq!(
            topology.is_homogeneous(),
            sizes.iter().all(|&size| size == sizes[0])
        );
        for rank in (0..size + 2).map(Rank::from_index) {
            let (local, cross) = (self.local_group(rank), self.cross_group(rank));
            prop_assert_eq!(
                topology.host_name(rank),
                self.name(rank).unwrap_or("unknown")
            );
            prop_assert_eq!(topology.local_group(rank), &local[..]);
            prop_assert_eq!(topology.cross_group(rank), &cross[..]);
            prop_assert_eq!(topology.leader_of(rank), local.first().copied());
            prop_assert_eq!(
                topology.position(rank),
                members.iter().position(|&other| other == rank)
            );
            let location = topology.location(rank);
            prop_assert_eq!(location.map(|at| at.local_rank), self.local_rank(rank));
            prop_assert_eq!(
                location.map(|at| at.cross_rank),
                cross.iter().position(|&other| other == rank)
            );
            for other in (0..size).map(Rank::from_index) {
                prop_assert_eq!(topology.share_host(rank, other), local.contains(&other));
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn it_answers_like_the_names(
        hosts in prop::collection::vec(0_u8..5, 0..14), chosen in prop::collection::vec(any::<bool>(), 14),
    ) {
        let names: Vec<String> = hosts.iter().map(|host| format!("host-{host}")).collect();
        let size = names.len();
        let topology = Topology::new(names.clone());
        let mut model = Model(names.into_iter().enumerate().map(|(rank, name)| (Rank::from_index(rank), name)).collect());
        model.compare(&topology, size)?;
        model.0.retain(|(rank, _)| chosen[rank.index()]);
        let mut some: Vec<Rank> = model.0.iter().map(|&(rank, _)| rank).collect();
        some.reverse();
        model.compare(&topology.restricted_to(&some).unwrap(), size)?;
    }
}
