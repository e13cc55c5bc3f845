//! Every member's buffer becomes a copy of the root's. With n members and S bytes:
//!
//! - Short buffers go down a binomial tree: ceil(log2(n)) steps, the root sends at most
//!   S ceil(log2(n)) bytes. Counted from the root, member i receives from i with its lowest set
//!   bit cleared, then sends to i + b for each power of two b below that bit.
//! - Long buffers go down a chain from the root to its predecessor, in chunks that each member
//!   passes on while it receives the next: every member sends S bytes once, whatever n is. This is
//!   an all-gather in which only the root has something to give, see [`crate::ring`].
//!
//! Members that see the same memory all read what the root shows, see [`crate::shared`].

use crate::allgather::gather;
use crate::layout::BlockLayout;
use crate::{Communicator, Result, Tuning, shared};

/// Copies member `root`'s `buffer` to all others, in the way that suits its size.
pub fn broadcast(
    comm: &mut Communicator<'_>,
    root: usize,
    buffer: &mut [u8],
    tuning: &Tuning,
) -> Result<()> {
    comm.rank_of(root)?;
    let layout = BlockLayout::Single {
        owner: root,
        bytes: buffer.len(),
        blocks: comm.size(),
    };
    if shared::gather(comm, layout, buffer, tuning.chunk_of(1))? {
        return Ok(());
    }
    if buffer.len() <= tuning.small_broadcast_bytes {
        tree_broadcast(comm, root, buffer)
    } else {
        chain_broadcast(comm, root, buffer, tuning)
    }
}

/// Copies member `root`'s `buffer` to all others with the fewest steps.
pub fn tree_broadcast(comm: &mut Communicator<'_>, root: usize, buffer: &mut [u8]) -> Result<()> {
    comm.rank_of(root)?;
    let size = comm.size();
    let distance = (comm.index() + size - root) % size;
    // The root has no set bit; it sends as if the bit were the first power of two not below n.
    let lowest = if distance == 0 {
        size.next_power_of_two()
    } else {
        1 << distance.trailing_zeros()
    };
    if distance != 0 {
        comm.recv((root + distance - lowest) % size, buffer)?;
    }
    let mut bit = lowest / 2;
    while bit > 0 {
        if distance + bit < size {
            comm.send((root + distance + bit) % size, buffer)?;
        }
        bit /= 2;
    }
    Ok(())
}

/// Copies member `root`'s `buffer` to all others with the fewest bytes.
pub fn chain_broadcast(
    comm: &mut Communicator<'_>,
    root: usize,
    buffer: &mut [u8],
    tuning: &Tuning,
) -> Result<()> {
    comm.rank_of(root)?;
    let layout = BlockLayout::Single {
        owner: root,
        bytes: buffer.len(),
        blocks: comm.size(),
    };
    gather(comm, layout, buffer, tuning.chunk_of(1))
}
