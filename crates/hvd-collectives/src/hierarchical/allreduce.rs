//! Allreduce in which every byte of the buffer leaves its host once and not once per rank. With H
//! hosts of L ranks and S bytes:
//!
//! - Long buffers, the same number of ranks on every host: a reduce-scatter round the host's ring
//!   (L - 1 steps), which leaves each rank with one of L blocks; an allreduce of that block over
//!   its cross group, all of them at the same time; an all-gather round the host's ring (L - 1
//!   steps). A rank sends 2 S (L - 1) / L bytes inside the host and 2 (S / L) (H - 1) / H to
//!   others.
//! - Short buffers, the same number of ranks on every host: an allreduce inside the host, and one
//!   over the cross group. log2(L) + log2(H) steps, as many as without hosts but with only the
//!   latter on the network, of S bytes each.
//! - Otherwise: everything is reduced into the host's first rank, allreduced over these and
//!   broadcast inside the host. A rank sends S bytes up, and S or, if the buffer is short, up to
//!   S log2(L) down; a leader sends 2 S (H - 1) / H to others.
//!
//! Inside the host, memory that its ranks share takes the place of the ring where there is some.
//!
//! With one host, or one rank per host, what remains is the ordinary allreduce.
//!
//! Results are the same bits everywhere: blocks are reduced over one cross group each, with the
//! same bits for all of it, and then only copied; for short buffers every cross group evaluates
//! the same expression on the same operands.

use hvd_transport::Transport;
use hvd_types::Topology;

use super::own_location;
use super::reduce::reduce_to_first;
use crate::allgather::gather_shared_or_ring;
use crate::allreduce::{allreduce, reduce_own_block};
use crate::broadcast::broadcast;
use crate::layout::BlockLayout;
use crate::{Combine, Communicator, Result, TensorMemory, Workspace, shared};

/// Reduces `buffer` over all ranks of all hosts, in place. All of them must call.
pub fn hierarchical_allreduce(
    transport: &mut dyn Transport,
    topology: &Topology,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    own_location(transport, topology)?;
    combine.check(buffer.len())?;
    if buffer.is_empty() {
        return Ok(());
    }
    let rank = transport.rank();
    let (local, cross) = (topology.local_group(rank), topology.cross_group(rank));
    if !topology.is_homogeneous() {
        return through_leaders(transport, topology, combine, buffer, workspace);
    }
    if buffer.len() <= workspace.tuning.small_allreduce_bytes {
        allreduce(
            &mut Communicator::new(transport, local)?,
            combine,
            buffer,
            workspace,
        )?;
        return allreduce(
            &mut Communicator::new(transport, cross)?,
            combine,
            buffer,
            workspace,
        );
    }
    let element_size = combine.dtype.size();
    let layout = BlockLayout::Even {
        elements: buffer.len() / element_size,
        element_size,
        blocks: local.len(),
    };
    let chunk = workspace.tuning.chunk_of(element_size);
    let mut comm = Communicator::new(transport, local)?;
    let memory = TensorMemory::InPlace(&mut *buffer);
    if !shared::reduce_own_block(&mut comm, combine, layout, memory, chunk)? {
        reduce_own_block(&mut comm, combine, layout, buffer, workspace)?;
    }
    let own = &mut buffer[layout.range(comm.index())];
    allreduce(
        &mut Communicator::new(transport, cross)?,
        combine,
        own,
        workspace,
    )?;
    gather_shared_or_ring(
        &mut Communicator::new(transport, local)?,
        layout,
        buffer,
        &workspace.tuning,
    )
}

fn through_leaders(
    transport: &mut dyn Transport,
    topology: &Topology,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    let local = topology.local_group(transport.rank());
    let mut comm = Communicator::new(transport, local)?;
    reduce_to_first(&mut comm, combine, buffer, workspace)?;
    if comm.index() == 0 {
        allreduce(
            &mut Communicator::new(transport, topology.leaders())?,
            combine,
            buffer,
            workspace,
        )?;
    }
    let mut comm = Communicator::new(transport, local)?;
    broadcast(&mut comm, 0, buffer, &workspace.tuning)
}
