//! Every member sends a part of its own to every other; parts may have any length.
//!
//! Pairwise exchange, n - 1 steps: in step s member i sends to i + s while it receives from i - s,
//! so that no member is ever the target of two. Each part travels once, straight to its receiver.
//! The caller's part for itself is copied.

use crate::error::expect_length;
use crate::layout::{BlockLayout, Parts, PartsMut, total_of};
use crate::{Communicator, Result};

/// Sends part j of `input` to member j and fills part j of `output` with what member j sends.
///
/// Bytes of `input` behind its last part are not sent. Each length to receive must be the one that
/// its sender has for the caller; [`exchange_counts`] tells it if it is not known.
pub fn alltoall(comm: &mut Communicator<'_>, input: Parts<'_>, output: PartsMut<'_>) -> Result<()> {
    let PartsMut {
        bytes: filled,
        counts,
    } = output;
    let to_send = total_of("list of lengths to send", input.counts, comm.size())?;
    let to_receive = total_of("list of lengths to receive", counts, comm.size())?;
    let Some(bytes) = input.bytes.get(..to_send) else {
        return expect_length("input of alltoall", to_send, input.bytes.len());
    };
    expect_length("output of alltoall", to_receive, filled.len())?;
    let (sent, received) = (
        BlockLayout::Counts(input.counts),
        BlockLayout::Counts(counts),
    );

    let own = comm.index();
    expect_length("part for oneself", input.counts[own], counts[own])?;
    filled[received.range(own)].copy_from_slice(&bytes[sent.range(own)]);
    for step in 1..comm.size() {
        let (to, from) = (comm.after(step), comm.before(step));
        let place = &mut filled[received.range(from)];
        comm.exchange(Some((to, &bytes[sent.range(to)])), Some((from, place)))?;
    }
    Ok(())
}

/// Tells every member one number and learns one from each: `received[j]` becomes member j's
/// `sent` for the caller. n - 1 steps of 8 bytes, little end first.
pub fn exchange_counts(
    comm: &mut Communicator<'_>,
    sent: &[u64],
    received: &mut [u64],
) -> Result<()> {
    expect_length("list of numbers to send", comm.size(), sent.len())?;
    expect_length("list of numbers to receive", comm.size(), received.len())?;
    received[comm.index()] = sent[comm.index()];
    for step in 1..comm.size() {
        let (to, from) = (comm.after(step), comm.before(step));
        let mut number = [0; 8];
        comm.exchange(
            Some((to, &sent[to].to_le_bytes())),
            Some((from, &mut number)),
        )?;
        received[from] = u64::from_le_bytes(number);
    }
    Ok(())
}
