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

use super::hosts::Hosts;
use crate::allgather::{gather, gather_somehow};
use crate::broadcast::broadcast;
use crate::error::expect_length;
use crate::layout::{Blocks, Layout, PartsMut, total_of};
use crate::{Communicator, Result, Tuning};

/// Gathers the parts of all ranks of all hosts in `output`, in ascending order of rank; the
/// caller's own is already in its place. All ranks must call.
pub fn hierarchical_allgather(
    transport: &mut dyn Transport,
    hosts: &Hosts,
    output: PartsMut<'_>,
    tuning: &Tuning,
) -> Result<()> {
    let own = hosts.own_place(transport)?;
    let PartsMut { bytes, counts } = output;
    let total = total_of("list of gathered lengths", counts, hosts.members().len())?;
    expect_length("output of allgather", total, bytes.len())?;
    if !hosts.is_homogeneous() {
        return through_leaders(transport, hosts, PartsMut { bytes, counts }, tuning);
    }
    let rank = transport.rank();
    let chunk = tuning.chunk_of(1);
    let column = Single {
        counts,
        parts: &hosts.cross_parts()[own.local],
    };
    let mut cross = Communicator::new(transport, hosts.cross_group(rank)?)?;
    gather(&mut cross, column, bytes, chunk)?;
    let columns = Several {
        counts,
        parts: hosts.cross_parts(),
    };
    let mut local = Communicator::new(transport, hosts.local_group(rank)?)?;
    gather_somehow(&mut local, columns, bytes, tuning)
}

fn through_leaders(
    transport: &mut dyn Transport,
    hosts: &Hosts,
    output: PartsMut<'_>,
    tuning: &Tuning,
) -> Result<()> {
    let PartsMut { bytes, counts } = output;
    let own = hosts.own_place(transport)?;
    let members = hosts.local_group(transport.rank())?;
    let mut local = Communicator::new(transport, members)?;
    let parts = Single {
        counts,
        parts: &hosts.local_parts()[own.host],
    };
    if own.local > 0 {
        local.send(0, &bytes[parts.range(own.local)])?;
    } else {
        for member in 1..members.len() {
            local.recv(member, &mut bytes[parts.range(member)])?;
        }
        let blocks = Several {
            counts,
            parts: hosts.local_parts(),
        };
        let mut leaders = Communicator::new(transport, hosts.leaders())?;
        gather(&mut leaders, blocks, bytes, tuning.chunk_of(1))?;
    }
    let mut local = Communicator::new(transport, members)?;
    broadcast(&mut local, 0, bytes, tuning)
}

/// Blocks that are each one of many parts of the given lengths.
#[derive(Debug, Clone, Copy)]
struct Single<'a> {
    counts: &'a [usize],
    parts: &'a [usize],
}

impl Single<'_> {
    fn range(&self, block: usize) -> Range<usize> {
        Layout::Counts(self.counts).range(self.parts[block])
    }
}

impl Blocks for Single<'_> {
    fn blocks(&self) -> usize {
        self.parts.len()
    }

    fn piece(&self, block: usize, piece: usize) -> Option<Range<usize>> {
        (piece == 0).then(|| self.range(block))
    }
}

/// Blocks that each consist of several of many parts of the given lengths.
#[derive(Debug, Clone, Copy)]
struct Several<'a> {
    counts: &'a [usize],
    parts: &'a [Vec<usize>],
}

impl Blocks for Several<'_> {
    fn blocks(&self) -> usize {
        self.parts.len()
    }

    fn piece(&self, block: usize, piece: usize) -> Option<Range<usize>> {
        let part = self.parts[block].get(piece)?;
        Some(Layout::Counts(self.counts).range(*part))
    }
}
