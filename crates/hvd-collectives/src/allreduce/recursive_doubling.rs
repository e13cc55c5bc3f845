//! Allreduce for short buffers, where the number of steps counts and not the bytes.
//!
//! With n members, S bytes and p the largest power of two not above n:
//!
//! 1. Fold in, if n is not p: of the first 2 (n - p) members, each odd one sends its buffer to the
//!    even one before it, which reduces it into its own. p members remain.
//! 2. log2(p) steps: the remaining members exchange whole buffers with the one whose position
//!    differs in bit 0, then bit 1, and so on, and reduce. After each step twice as many members
//!    hold the same value.
//! 3. Fold out: the even members of step 1 send the result to the odd ones.
//!
//! A member that remains sends S log2(p) bytes, one that folded another S more; a folded one sends
//! S bytes in all.
//!
//! Results are the same bits everywhere: before each step all members of a group hold the same
//! bits, groups are runs of neighbours, and both sides of an exchange reduce with the lower group
//! on the left. They thereby evaluate the same expression, even where the order of the sides shows
//! (zeros of different sign, payloads of "not a number").

use crate::{Combine, Communicator, Result, Workspace};

/// Reduces `buffer` over all members, in place, with the fewest steps.
pub fn recursive_doubling_allreduce(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    combine.check(buffer.len())?;
    if comm.size() == 1 || buffer.is_empty() {
        return Ok(());
    }
    fold_and_double(comm, combine, buffer, workspace.scratch.bytes(buffer.len()))
}

/// As [`recursive_doubling_allreduce`], with as much memory to receive into as `buffer` has.
pub(super) fn fold_and_double(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    received: &mut [u8],
) -> Result<()> {
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
            double(
                comm,
                &folding,
                position,
                Sides {
                    combine,
                    buffer,
                    received,
                },
            )?;
            folded.map_or(Ok(()), |member| comm.send(member, buffer))
        }
    }
}

struct Sides<'a> {
    combine: Combine,
    buffer: &'a mut [u8],
    received: &'a mut [u8],
}

fn double(
    comm: &mut Communicator<'_>,
    folding: &Folding,
    position: usize,
    sides: Sides<'_>,
) -> Result<()> {
    let Sides {
        combine,
        buffer,
        received,
    } = sides;
    let mut bit = 1;
    while bit < folding.remaining {
        let peer = folding.member_at(position ^ bit);
        comm.exchange(Some((peer, buffer)), Some((peer, received)))?;
        if position & bit == 0 {
            combine.apply(buffer, received)?;
        } else {
            combine.apply(received, buffer)?;
            buffer.copy_from_slice(received);
        }
        bit *= 2;
    }
    Ok(())
}

/// Who takes part in the doubling, and for whom.
pub(super) struct Folding {
    /// The power of two.
    pub(super) remaining: usize,
    /// Members that hand over to their neighbour.
    surplus: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoldRole {
    Folded {
        into: usize,
    },
    Remaining {
        position: usize,
        folded: Option<usize>,
    },
}

impl Folding {
    pub(super) fn of(members: usize) -> Self {
        let remaining = 1 << members.ilog2();
        Self {
            remaining,
            surplus: members - remaining,
        }
    }

    pub(super) fn role(&self, index: usize) -> FoldRole {
        if index >= 2 * self.surplus {
            FoldRole::Remaining {
                position: index - self.surplus,
                folded: None,
            }
        } else if index.is_multiple_of(2) {
            FoldRole::Remaining {
                position: index / 2,
                folded: Some(index + 1),
            }
        } else {
            FoldRole::Folded { into: index - 1 }
        }
    }

    pub(super) fn member_at(&self, position: usize) -> usize {
        if position < self.surplus {
            position * 2
        } else {
            position + self.surplus
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surplus_members_fold_into_their_neighbours() {
        let folding = Folding::of(6);
        let roles: Vec<FoldRole> = (0..6).map(|index| folding.role(index)).collect();
        let remaining = |position, folded| FoldRole::Remaining { position, folded };
        assert_eq!(
            roles,
            [
                remaining(0, Some(1)),
                FoldRole::Folded { into: 0 },
                remaining(1, Some(3)),
                FoldRole::Folded { into: 2 },
                remaining(2, None),
                remaining(3, None),
            ]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|position| folding.member_at(position)),
            [0, 2, 4, 5]
        );
    }

    #[test]
    fn no_rank_folds_in_a_power_of_two() {
        let folding = Folding::of(8);
        assert_eq!(
            folding.role(7),
            FoldRole::Remaining {
                position: 7,
                folded: None
            }
        );
    }
}
