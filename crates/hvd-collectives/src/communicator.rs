//! A group of ranks that does something together.
//!
//! Algorithms number the members of their group 0 to n - 1 and know nothing of ranks; this file is
//! where a position becomes a rank. The same algorithm thereby serves a whole job, a process set
//! and the ranks of one host. It owns nothing: transport and member list are borrowed for the
//! length of an operation.

use std::fmt;
use std::ops::Range;

use hvd_transport::{MessageExchange, SharedSlots, Transport};
use hvd_types::Rank;

use crate::{Error, Result};

/// One member's view of a group, with members addressed by their position in it.
pub struct Communicator<'a> {
    transport: &'a mut dyn Transport,
    members: &'a [Rank],
    index: usize,
}

impl<'a> Communicator<'a> {
    /// The group of `members`, of which the transport's own rank must be one.
    ///
    /// Every member must give the same list, in the same order, with each rank in it once.
    pub fn new(transport: &'a mut dyn Transport, members: &'a [Rank]) -> Result<Self> {
        let (rank, size) = (transport.rank(), transport.size());
        if let Some(&rank) = members.iter().find(|member| member.index() >= size) {
            return Err(Error::UnknownRank { rank, size });
        }
        let Some(index) = members.iter().position(|&member| member == rank) else {
            return Err(Error::NotAMember {
                rank,
                members: members.len(),
            });
        };
        Ok(Self {
            transport,
            members,
            index,
        })
    }

    /// The caller's position in the group.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The position `distance` places after the caller's, counted round the group.
    pub fn after(&self, distance: usize) -> usize {
        (self.index + distance % self.size()) % self.size()
    }

    /// The position `distance` places before the caller's, counted round the group.
    pub fn before(&self, distance: usize) -> usize {
        (self.index + self.size() - distance % self.size()) % self.size()
    }

    /// The rank at a position.
    pub fn rank_of(&self, index: usize) -> Result<Rank> {
        let no_such_member = Error::NoSuchMember {
            index,
            members: self.members.len(),
        };
        self.members.get(index).copied().ok_or(no_such_member)
    }

    /// The part of the group that stands at some positions, of which the caller's must be one.
    pub(crate) fn among(&mut self, positions: Range<usize>) -> Communicator<'_> {
        Communicator {
            transport: self.transport,
            index: self.index - positions.start,
            members: &self.members[positions],
        }
    }

    /// What carries the bytes, for algorithms that form groups of their own.
    pub fn transport(&mut self) -> &mut dyn Transport {
        self.transport
    }

    /// Whether all members, and there are several, see the same memory.
    pub fn shares_memory(&mut self) -> bool {
        self.shared_slots().is_some()
    }

    /// The memory that all members see, if there is such.
    pub(crate) fn shared_slots(&mut self) -> Option<SharedSlots<'_>> {
        self.transport.shared_slots(self.members)
    }

    /// Whole messages among the members, if their wires move those faster than pieces.
    pub(crate) fn messages(&mut self) -> Option<&mut dyn MessageExchange> {
        self.transport.messages(self.members)
    }

    /// Sends all of `bytes` to a member.
    pub fn send(&mut self, index: usize, bytes: &[u8]) -> Result<()> {
        self.exchange(Some((index, bytes)), None)
    }

    /// Fills `buffer` with what a member sends.
    pub fn recv(&mut self, index: usize, buffer: &mut [u8]) -> Result<()> {
        self.exchange(None, Some((index, buffer)))
    }

    /// Sends to one member while receiving from another, or the same.
    pub fn exchange(
        &mut self,
        send: Option<(usize, &[u8])>,
        recv: Option<(usize, &mut [u8])>,
    ) -> Result<()> {
        let send = match send {
            Some((index, bytes)) => Some((self.rank_of(index)?, bytes)),
            None => None,
        };
        let recv = match recv {
            Some((index, buffer)) => Some((self.rank_of(index)?, buffer)),
            None => None,
        };
        Ok(self.transport.exchange(send, recv)?)
    }
}

impl fmt::Debug for Communicator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("transport", &self.transport.kind())
            .field("members", &self.members)
            .field("index", &self.index)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use hvd_testkit::run_ranks_with;
    use hvd_transport::mem;

    use super::*;

    #[test]
    fn positions_are_counted_round_the_group() {
        let mut mesh = mem::mesh(8);
        let members = [7, 3, 5].map(Rank::new);
        let comm = Communicator::new(&mut mesh[3], &members).unwrap();
        assert_eq!((comm.index(), comm.size()), (1, 3));
        assert_eq!((comm.after(1), comm.after(2), comm.after(7)), (2, 0, 2));
        assert_eq!((comm.before(1), comm.before(2), comm.before(8)), (0, 2, 2));
    }

    #[test]
    fn strangers_and_unknown_ranks_are_refused() {
        let mut mesh = mem::mesh(2);
        let refused = |rank: usize, members: &[u32], mesh: &mut Vec<mem::MemTransport>| {
            let members: Vec<Rank> = members.iter().copied().map(Rank::new).collect();
            Communicator::new(&mut mesh[rank], &members)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(1, &[0], &mut mesh),
            "rank 1 is not one of the 1 members of the group; only members may call"
        );
        assert_eq!(
            refused(0, &[0, 2], &mut mesh),
            "the group names rank 2, but the job has only 2 ranks"
        );
        let members = [Rank::new(0)];
        let mut alone = Communicator::new(&mut mesh[0], &members).unwrap();
        let error = alone.send(1, b"x").unwrap_err();
        assert_eq!(error.to_string(), "there is no member 1 in a group of 1");
    }

    #[test]
    fn addresses_members_by_position() {
        let members = [2, 0].map(Rank::new);
        let received = run_ranks_with(mem::mesh(3), move |rank, mut transport| {
            if rank == Rank::new(1) {
                return 0;
            }
            let mut comm = Communicator::new(&mut transport, &members).unwrap();
            let own = [u8::try_from(comm.index()).unwrap() + 10];
            let mut other = [0];
            let peer = comm.after(1);
            comm.exchange(Some((peer, &own)), Some((peer, &mut other)))
                .unwrap();
            other[0]
        });
        assert_eq!(received, [10, 0, 11]);
    }
}
