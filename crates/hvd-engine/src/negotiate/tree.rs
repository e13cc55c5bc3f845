//! The control tree: how requests reach the coordinator, rank 0, which is its root.
//!
//! The lowest rank of each host leads it. Leaders form a tree, and below each leader so do the
//! other ranks of its host. A node's range of hosts or ranks, without the node itself, is cut into
//! at most [`FAN_OUT`] even parts, each below its first: the depth is logarithmic, and where ranks
//! are numbered by host, every subtree is one span of ranks. A pure function of the topology,
//! so all ranks find the same tree without communication.

use std::ops::Range;

use hvd_types::{Rank, Ranks, Topology};

/// Most children that a rank has on its host, and most that a leader has on others.
pub(crate) const FAN_OUT: usize = 8;

/// Up to so many ranks all send their requests to rank 0: it handles their messages sooner than a
/// relay would pass them on.
pub(crate) const STAR_RANKS: usize = 32;

/// One rank's position in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreePosition {
    pub(crate) rank: Rank,
    /// None for the root.
    pub(crate) parent: Option<Rank>,
    pub(crate) children: Vec<Child>,
}

/// A rank directly below another one, and the ranks below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) rank: Rank,
    /// The child itself and all ranks below it.
    pub(crate) below: Ranks,
}

impl Child {
    /// Whether no ranks are below it.
    pub(crate) fn is_leaf(&self) -> bool {
        self.below.len() == 1
    }
}

/// The tree of a job, which gives the position of every rank.
#[derive(Debug)]
pub(crate) struct ControlTree {
    topology: Topology,
    fan_out: usize,
}

impl ControlTree {
    /// The tree of a job.
    pub(crate) fn new(topology: &Topology, fan_out: usize) -> Self {
        Self {
            topology: topology.clone(),
            fan_out,
        }
    }

    /// The position of a rank of the job.
    pub(crate) fn place(&self, rank: Rank) -> TreePosition {
        let location = self.topology.location(rank);
        let (host, index) = location.map_or((0, 0), |at| (at.host, at.local_rank));
        let local = self.topology.local_group(rank);
        let inside = TreeNode::find(index, local.len(), self.fan_out);
        let mut parent = inside.parent.map(|index| local[index]);
        let mut children: Vec<Child> = inside
            .children
            .into_iter()
            .map(|part| child(local[part].iter().copied()))
            .collect();
        if index == 0 {
            let groups = self.topology.local_groups();
            let between = TreeNode::find(host, groups.len(), self.fan_out);
            parent = between.parent.map(|host| groups[host][0]);
            let below = |part: Range<usize>| child(groups[part].iter().flatten().copied());
            children.extend(between.children.into_iter().map(below));
        }
        TreePosition {
            rank,
            parent,
            children,
        }
    }
}

impl TreePosition {
    /// The position of a rank in a star: all ranks are children of rank 0.
    pub(crate) fn in_star(rank: Rank, size: usize) -> Self {
        let root = rank == Rank::COORDINATOR;
        let others = (1..if root { size } else { 0 }).map(Rank::from_index);
        Self {
            rank,
            parent: (!root).then_some(Rank::COORDINATOR),
            children: others.map(|rank| child([rank])).collect(),
        }
    }

    /// This rank and all below it.
    pub(crate) fn below(&self) -> Ranks {
        let mut all = Ranks::one(self.rank);
        for child in &self.children {
            all.insert_all(&child.below);
        }
        all
    }

    /// The children that have members of a set below them; `members` ascend.
    pub(crate) fn towards<'a>(&'a self, members: &'a [Rank]) -> impl Iterator<Item = Rank> + 'a {
        let is_in = |&(first, end): &(u32, u32)| {
            let next = members.partition_point(|rank| rank.number() < first);
            members.get(next).is_some_and(|rank| rank.number() < end)
        };
        let children = self.children.iter();
        children
            .filter(move |child| child.below.spans().iter().any(is_in))
            .map(|child| child.rank)
    }

    /// All ranks this one is connected with.
    pub(crate) fn neighbours(&self) -> impl Iterator<Item = Rank> + '_ {
        let children = self.children.iter().map(|child| child.rank);
        self.parent.into_iter().chain(children)
    }
}

/// A subtree led by the first of its ranks.
fn child(ranks: impl IntoIterator<Item = Rank>) -> Child {
    let mut ranks: Vec<Rank> = ranks.into_iter().collect();
    let leader = ranks.first().copied().unwrap_or_default();
    ranks.sort_unstable();
    Child {
        rank: leader,
        below: ranks.into_iter().collect(),
    }
}

/// A node of the tree over `0..count`, in which the first of every range leads it.
struct TreeNode {
    parent: Option<usize>,
    children: Vec<Range<usize>>,
}

impl TreeNode {
    /// Walks down from the root to the node `index`.
    fn find(index: usize, count: usize, fan_out: usize) -> Self {
        let mut parent = None;
        let mut range = 0..count;
        loop {
            let children = split(range.start + 1..range.end, fan_out);
            match children.iter().find(|part| part.contains(&index)) {
                Some(part) => {
                    parent = Some(range.start);
                    range = part.clone();
                }
                None => return Self { parent, children },
            }
        }
    }
}

/// Cuts a range into at most `most` parts of nearly equal length.
fn split(range: Range<usize>, most: usize) -> Vec<Range<usize>> {
    let length = range.len();
    let parts = length.min(most.max(1));
    let cut = |part: usize| range.start + length * part / parts.max(1);
    (0..parts).map(|part| cut(part)..cut(part + 1)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hosts(sizes: &[usize]) -> Topology {
        let named = |(host, &size): (usize, &usize)| vec![format!("h{host}"); size];
        Topology::new(sizes.iter().enumerate().flat_map(named))
    }

    fn tree(topology: &Topology, fan_out: usize) -> Vec<TreePosition> {
        let tree = ControlTree::new(topology, fan_out);
        let ranks = topology.members().iter();
        ranks.map(|&rank| tree.place(rank)).collect()
    }

    #[test]
    fn leaders_speak_for_their_hosts() {
        let places = tree(&hosts(&[2, 3, 1]), 8);
        let parents: Vec<_> = places
            .iter()
            .map(|place| place.parent.map(Rank::number))
            .collect();
        assert_eq!(parents, [None, Some(0), Some(0), Some(2), Some(2), Some(0)]);
        let children: Vec<_> = places[0].children.iter().map(|child| child.rank).collect();
        assert_eq!(children, [1, 2, 5].map(Rank::new));
        assert_eq!(places[0].children[1].below.spans(), [(2, 5)]);
    }

    #[test]
    fn the_depth_is_logarithmic() {
        let places = tree(&hosts(&[8; 512]), FAN_OUT);
        let depth = |mut rank: usize| {
            let mut depth = 0;
            while let Some(parent) = places[rank].parent {
                rank = parent.index();
                depth += 1;
            }
            depth
        };
        assert!((0..places.len()).map(depth).max().unwrap() <= 5);
        let most = places.iter().map(|place| place.neighbours().count()).max();
        assert_eq!(most, Some(7 + FAN_OUT + 1));
    }

    proptest! {
        #[test]
        fn everybody_is_below_exactly_one_parent(
            names in prop::collection::vec(0_u8..6, 1..40), fan_out in 1_usize..5,
        ) {
            let topology = Topology::new(names.iter().map(|name| format!("h{name}")));
            let places = tree(&topology, fan_out);
            prop_assert_eq!(places[0].below().len(), topology.size());
            prop_assert_eq!(places[0].parent, None);
            for place in &places {
                let below: usize = place.children.iter().map(|child| child.below.len()).sum();
                prop_assert_eq!(below + 1, place.below().len(), "no rank twice");
                for child in &place.children {
                    let own = &places[child.rank.index()];
                    prop_assert_eq!(own.parent, Some(place.rank));
                    prop_assert_eq!(&own.below(), &child.below);
                    prop_assert_eq!(own.children.is_empty(), child.is_leaf());
                }
            }
        }
    }
}
