//! Messages of the negotiation, and notices of schedules, over the transport's control lane.
//!
//! Sending never blocks: bytes that the lane cannot take now are held back and sent on a later
//! turn. Only a rank that passes response lists on insists ([`ControlChannel::insist`]): it must
//! not begin an operation before the ranks below can know of it; they are never blocked on this
//! rank at that point, so the wait ends.

use std::time::Instant;

use hvd_transport::{Interest, Lane, Transport, Wake};
use hvd_types::Rank;
use hvd_wire::MessageKind;
use hvd_wire::frame::{self, Assembler};

use crate::{Error, Result};

/// Bytes read from a lane at once.
const READ_SIZE: usize = 16 * 1024;

/// This rank's control messages to and from its peers.
#[derive(Debug)]
pub(crate) struct ControlChannel {
    peers: Vec<ControlPeer>,
    /// Peers for which bytes are held back.
    unsent: Vec<Rank>,
    piece: Box<[u8]>,
}

#[derive(Debug)]
struct ControlPeer {
    rank: Rank,
    incoming: Assembler,
    outgoing: Vec<u8>,
    sent: usize,
}

impl ControlChannel {
    /// A channel to the given peers: a rank's neighbours in the tree, and those it exchanges
    /// notices with.
    pub(crate) fn new(peers: impl Iterator<Item = Rank>) -> Self {
        let peer = |rank| ControlPeer {
            rank,
            incoming: Assembler::default(),
            outgoing: Vec::new(),
            sent: 0,
        };
        let piece = vec![0; READ_SIZE].into_boxed_slice();
        Self {
            peers: peers.map(peer).collect(),
            unsent: Vec::new(),
            piece,
        }
    }

    /// Puts one message into the outbox of each peer that is `addressed`, and returns their number.
    pub(crate) fn post(
        &mut self,
        kind: MessageKind,
        addressed: impl Fn(Rank) -> bool,
        encode: impl Fn(&mut Vec<u8>),
    ) -> Result<u64> {
        let whole = |out: &mut Vec<u8>| {
            out.push(kind as u8);
            encode(out);
        };
        let mut count = 0;
        for peer in self.peers.iter_mut().filter(|peer| addressed(peer.rank)) {
            frame::append(&mut peer.outgoing, frame::LIMIT, whole)
                .map_err(|error| internal(error.into()))?;
            count += 1;
        }
        Ok(count)
    }

    /// Sends what can be sent now.
    pub(crate) fn flush(&mut self, transport: &mut dyn Transport) -> Result<()> {
        self.unsent.clear();
        for peer in &mut self.peers {
            peer.flush(transport)?;
            if !peer.outgoing.is_empty() {
                self.unsent.push(peer.rank);
            }
        }
        Ok(())
    }

    /// Whether the last [`ControlChannel::flush`] left something for one of `to` behind.
    pub(crate) fn holds_back(&self, to: &[Rank]) -> bool {
        self.unsent.iter().any(|rank| to.contains(rank))
    }

    /// Sends everything there is for `to`, waiting for the slow ones among them. Others are not
    /// waited for: they may be gone, at the end of a job.
    pub(crate) fn insist(&mut self, transport: &mut dyn Transport, to: &[Rank]) -> Result<()> {
        let end = Instant::now() + transport.progress_timeout();
        loop {
            self.flush(transport)?;
            let is_wanted = |rank: &&Rank| to.contains(rank);
            let unsent: Vec<Rank> = self.unsent.iter().filter(is_wanted).copied().collect();
            let Some(&slow) = unsent.first() else {
                return Ok(());
            };
            let interest = Interest::Control { unsent: &unsent };
            if transport.wait(interest, Some(end))? == Wake::TimedOut {
                return Err(transport.stalled(slow).into());
            }
        }
    }

    /// Hands every whole message that has arrived to `take`.
    pub(crate) fn receive(
        &mut self,
        transport: &mut dyn Transport,
        mut take: impl FnMut(Rank, MessageKind, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for peer in &mut self.peers {
            loop {
                let length = transport.try_recv(peer.rank, Lane::Control, &mut self.piece)?;
                peer.incoming.push(&self.piece[..length]);
                // Less than there is room for is all there was; what came since ends the next wait.
                if length < self.piece.len() {
                    break;
                }
            }
            while let Some(message) = peer.incoming.next_message().map_err(internal)? {
                let (kind, message) = MessageKind::split(message).map_err(internal)?;
                take(peer.rank, kind, message)?;
            }
        }
        Ok(())
    }

    /// Sleeps until a message may have arrived, held-back bytes may go, the transport is
    /// woken or the deadline passes.
    pub(crate) fn wait(
        &self,
        transport: &mut dyn Transport,
        deadline: Option<Instant>,
    ) -> Result<Wake> {
        Ok(transport.wait(
            Interest::Control {
                unsent: &self.unsent,
            },
            deadline,
        )?)
    }
}

impl ControlPeer {
    fn flush(&mut self, transport: &mut dyn Transport) -> Result<()> {
        while self.sent < self.outgoing.len() {
            let rest = &self.outgoing[self.sent..];
            match transport.try_send(self.rank, Lane::Control, rest)? {
                0 => return Ok(()),
                sent => self.sent += sent,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }
}

fn internal(error: hvd_wire::Error) -> Error {
    Error::Internal(format!("bad control message: {error}"))
}
