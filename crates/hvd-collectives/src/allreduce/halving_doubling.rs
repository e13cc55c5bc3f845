//! Allreduce for buffers of middle length, where both the steps and the bytes count.
//!
//! With n members, S bytes and p the largest power of two not above n:
//!
//! 1. Fold in, as in [`super::recursive_doubling`], if n is not p. p members remain.
//! 2. Halving, log2(p) steps: the remaining members exchange halves of what they are concerned with,
//!    first the whole buffer, with the one whose position differs in bit 0, then bit 1, and so on.
//!    Each reduces the half that it keeps, so in the end it holds 1 / p of the result.
//! 3. Doubling, log2(p) steps: the same exchanges backwards, of finished halves.
//! 4. Fold out.
//!
//! A member that remains sends 2 S (p - 1) / p bytes, the least possible, in 2 log2(p) steps. Long
//! messages go to near members and short ones to far ones, which are more often on other hosts.
//!
//! Results are the same bits everywhere because each element is reduced by one member at each level
//! and then only copied.

use std::ops::Range;

use super::recursive_doubling::{FoldRole, Folding};
use crate::{Combine, Communicator, Result, Workspace};

/// Reduces `buffer` over all members, in place, with few steps and few bytes.
pub fn halving_doubling_allreduce(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    combine.check(buffer.len())?;
    if comm.size() == 1 || buffer.is_empty() {
        return Ok(());
    }
    let received = workspace.scratch.bytes(buffer.len());
    let folding = Folding::of(comm.size());
    match folding.role(comm.index()) {
        FoldRole::Folded { into } => {
            comm.send(into, buffer)?;
            comm.recv(into, buffer)
        }
        FoldRole::Remaining { position, folded } => {
            if let Some(member) = folded {
                comm.recv(member, received)?;
                combine.apply(buffer, received)?;
            }
            let steps = halve(comm, &folding, position, (combine, buffer, received))?;
            double(comm, &steps, buffer)?;
            folded.map_or(Ok(()), |member| comm.send(member, buffer))
        }
    }
}

/// An exchange: with whom, and the halves of what both were concerned with, as bytes.
struct HalvingStep {
    peer: usize,
    kept: Range<usize>,
    given: Range<usize>,
}

fn halve(
    comm: &mut Communicator<'_>,
    folding: &Folding,
    position: usize,
    (combine, buffer, received): (Combine, &mut [u8], &mut [u8]),
) -> Result<Vec<HalvingStep>> {
    let element = combine.dtype.size();
    let (mut steps, mut concern, mut bit) = (Vec::new(), 0..buffer.len(), 1);
    while bit < folding.remaining {
        let middle = concern.start + concern.len() / element / 2 * element;
        let (low, high) = (concern.start..middle, middle..concern.end);
        let (kept, given) = if position & bit == 0 {
            (low, high)
        } else {
            (high, low)
        };
        let peer = folding.member_at(position ^ bit);
        let landing = &mut received[..kept.len()];
        let send = Some((peer, &buffer[given.clone()]));
        comm.exchange(send, Some((peer, &mut *landing)))?;
        combine.apply(&mut buffer[kept.clone()], landing)?;
        concern = kept.clone();
        steps.push(HalvingStep { peer, kept, given });
        bit *= 2;
    }
    Ok(steps)
}

fn double(comm: &mut Communicator<'_>, steps: &[HalvingStep], buffer: &mut [u8]) -> Result<()> {
    for HalvingStep { peer, kept, given } in steps.iter().rev() {
        // The halves are neighbours. One of them may be empty, so their starts may be the same.
        let (low, high) = buffer.split_at_mut(kept.start.max(given.start));
        let (finished, landing) = if kept.end <= given.start {
            (&low[kept.clone()], &mut high[..given.len()])
        } else {
            (&high[..kept.len()], &mut low[given.clone()])
        };
        comm.exchange(Some((*peer, finished)), Some((*peer, landing)))?;
    }
    Ok(())
}
