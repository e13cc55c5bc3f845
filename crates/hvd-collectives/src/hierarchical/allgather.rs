//! Allgather in which every part enters every other host once. With H hosts of L ranks and S bytes
//! in all parts together:
//!
//! - The same number of ranks on every host: each cross group gathers its own parts, all of them
//!   at the same time (H - 1 steps), and what each rank then holds, a part from every host, is
//!   gathered inside the host (L - 1 steps). With equal parts a rank sends (S / L) (H - 1) / H
//!   bytes to other hosts and S (L - 1) / L inside its own.
//! - Otherwise: each rank sends its part to its host's first, these gather from each other what
//!   their hosts have (H - 1 steps), and broadcast the whole inside the host. A leader sends S less
//!   its successor's host's parts to other hosts.
//!
//! With one host, or one rank per host, what remains is the ordinary ring. Parts travel straight
//! to their places, wherever in the output they are: those of a host, or of a cross group, need
//! not be neighbours.

use std::ops::Range;

use hvd_transport::Transport;
use hvd_types::{Rank, Topology};

use super::own_location;
use crate::allgather::{gather, gather_shared_or_ring};
use crate::broadcast::broadcast;
use crate::error::expect_length;
use crate::layout::{BlockLayout, Blocks, PartsMut, total_of};
use crate::{Communicator, Result, Tuning};

/// Gathers the parts of all ranks of all hosts in `output`, in ascending order of rank; the
/// caller's own is already in its place. All ranks must call.
pub fn hierarchical_allgather(
    transport: &mut dyn Transport,
    topology: &Topology,
    output: PartsMut<'_>,
    tuning: &Tuning,
) -> Result<()> {
    own_location(transport, topology)?;
    let PartsMut { bytes, counts } = output;
    let total = total_of("list of gathered lengths", counts, topology.size())?;
    expect_length("output of allgather", total, bytes.len())?;
    if !topology.is_homogeneous() {
        return through_leaders(transport, topology, PartsMut { bytes, counts }, tuning);
    }
    let rank = transport.rank();
    let chunk = tuning.chunk_of(1);
    let members = topology.cross_group(rank);
    let column = SinglePart {
        topology,
        counts,
        owners: members,
    };
    let mut cross = Communicator::new(transport, members)?;
    gather(&mut cross, column, bytes, chunk)?;
    let columns = SeveralParts {
        topology,
        counts,
        owners: topology.cross_groups(),
    };
    let mut local = Communicator::new(transport, topology.local_group(rank))?;
    gather_shared_or_ring(&mut local, columns, bytes, tuning)
}

fn through_leaders(
    transport: &mut dyn Transport,
    topology: &Topology,
    output: PartsMut<'_>,
    tuning: &Tuning,
) -> Result<()> {
    let PartsMut { bytes, counts } = output;
    let own = own_location(transport, topology)?;
    let members = topology.local_group(transport.rank());
    let mut local = Communicator::new(transport, members)?;
    let parts = SinglePart {
        topology,
        counts,
        owners: members,
    };
    if own.local_rank > 0 {
        local.send(0, &bytes[parts.range(own.local_rank)])?;
    } else {
        for member in 1..members.len() {
            local.recv(member, &mut bytes[parts.range(member)])?;
        }
        let blocks = SeveralParts {
            topology,
            counts,
            owners: topology.local_groups(),
        };
        let mut leaders = Communicator::new(transport, topology.leaders())?;
        gather(&mut leaders, blocks, bytes, tuning.chunk_of(1))?;
    }
    let mut local = Communicator::new(transport, members)?;
    broadcast(&mut local, 0, bytes, tuning)
}

/// The range of one rank's part in the output.
fn part_of(topology: &Topology, counts: &[usize], owner: Rank) -> Range<usize> {
    // Only members are asked for.
    let position = topology.position(owner).unwrap_or_default();
    BlockLayout::Counts(counts).range(position)
}

/// Blocks that are each the part of one rank.
#[derive(Debug, Clone, Copy)]
struct SinglePart<'a> {
    topology: &'a Topology,
    /// Lengths of the parts of all members.
    counts: &'a [usize],
    /// By block.
    owners: &'a [Rank],
}

impl SinglePart<'_> {
    fn range(&self, block: usize) -> Range<usize> {
        part_of(self.topology, self.counts, self.owners[block])
    }
}

impl Blocks for SinglePart<'_> {
    fn blocks(&self) -> usize {
        self.owners.len()
    }

    fn piece(&self, block: usize, piece: usize) -> Option<Range<usize>> {
        (piece == 0).then(|| self.range(block))
    }
}

/// Blocks that each consist of the parts of several ranks.
#[derive(Debug, Clone, Copy)]
struct SeveralParts<'a> {
    topology: &'a Topology,
    /// Lengths of the parts of all members.
    counts: &'a [usize],
    /// By block.
    owners: &'a [Vec<Rank>],
}

impl Blocks for SeveralParts<'_> {
    fn blocks(&self) -> usize {
        self.owners.len()
    }

    fn piece(&self, block: usize, piece: usize) -> Option<Range<usize>> {
        let owner = self.owners[block].get(piece)?;
        Some(part_of(self.topology, self.counts, *owner))
    }
}
