//! Reduces all members' buffers into the first member's; the others are left with parts of sums.
//! With n members and S bytes:
//!
//! - Short buffers go up a binomial tree: ceil(log2(n)) steps, every member but the first sends
//!   S bytes, once.
//! - Long buffers go up a chain from the last member to the first, in chunks that each member
//!   reduces and passes on while it receives the next: S bytes again, but the first member
//!   receives them once and not log2(n) times.

use crate::{Combine, Communicator, Result, Workspace};

pub(super) fn reduce_to_first(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    if buffer.len() <= workspace.tuning.small_allreduce_bytes {
        tree(comm, combine, buffer, workspace)
    } else {
        chain(comm, combine, buffer, workspace)
    }
}

fn tree(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    let received = workspace.scratch.bytes(buffer.len());
    let mut bit = 1;
    while bit < comm.size() {
        if comm.index() & bit != 0 {
            return comm.send(comm.index() - bit, buffer);
        }
        let child = comm.index() + bit;
        if child < comm.size() {
            comm.recv(child, received)?;
            combine.apply(buffer, received)?;
        }
        bit *= 2;
    }
    Ok(())
}

fn chain(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    let chunk = workspace.tuning.chunk_of(combine.dtype.size());
    let received = workspace.scratch.bytes(chunk.min(buffer.len()));
    let upper = comm.index().checked_sub(1);
    let lower = Some(comm.index() + 1).filter(|&member| member < comm.size());
    let mut finished = 0..0;
    loop {
        let next = finished.end..buffer.len().min(finished.end + chunk);
        let arriving = &mut received[..next.len()];
        let send = upper.map(|member| (member, &buffer[finished.clone()]));
        comm.exchange(send, lower.map(|member| (member, &mut *arriving)))?;
        if lower.is_some() {
            combine.apply(&mut buffer[next.clone()], arriving)?;
        }
        if next.is_empty() {
            return Ok(());
        }
        finished = next;
    }
}
