//! Whole messages through a fabric: what both sides know the length of moves in few, long messages,
//! is sent from where it is, and is read by the caller where the fabric has received it. Pieces,
//! which [`Transport::try_send`] takes, are copied twice and cost the fabric an agreement each.
//!
//! - `MSG-1` only ranks that are all on different hosts exchange messages: then all of them agree,
//!   without asking, that their data goes through the fabric.
//! - `MSG-2` an exchange that is given up leaves a fabric that is never called again (`FAB-4`), so the
//!   bytes that it was sending are not read any more.

use std::ops::ControlFlow;
use std::time::Instant;

use hvd_types::Rank;

use super::pacing::Pacing;
use super::{FabricError, OverFabric, lost_peer};
use crate::rank_context::RankContext;
use crate::{Interest, Result, Transport};

/// What the length of every part but the last is a multiple of.
pub const PART_ALIGNMENT: usize = 64;

/// A message to one rank and one from another, or the same.
#[derive(Debug, Clone, Copy)]
pub struct MessagePair<'a> {
    /// Who gets the bytes.
    pub to: Rank,
    /// What it gets.
    pub bytes: &'a [u8],
    /// Who sends the other message.
    pub from: Rank,
    /// How long that one is.
    pub length: usize,
}

/// Takes the next part of a message, and where in the message it begins: at a multiple of
/// [`PART_ALIGNMENT`], so that no element is divided.
pub type TakePart<'a> = &'a mut dyn FnMut(usize, &[u8]);

/// Is told, after every look at the messages, whether anything moved; says whether to go on.
pub type AfterLook<'a> = &'a mut dyn FnMut(bool) -> ControlFlow<()>;

/// How an exchange ended that met no error: `Break` if it was given up.
pub type Exchanged = std::result::Result<ControlFlow<()>, FabricError>;

/// Moves whole messages between ranks.
pub trait MessageExchange {
    /// Sends one message while another arrives, whose parts go to `take_part` in order. The peers must
    /// make calls with the same lengths, which may be 0.
    fn exchange_messages(
        &mut self,
        messages: MessagePair<'_>,
        take_part: TakePart<'_>,
    ) -> Result<()>;
}

impl<T: Transport> MessageExchange for OverFabric<T> {
    fn exchange_messages(
        &mut self,
        messages: MessagePair<'_>,
        take_part: TakePart<'_>,
    ) -> Result<()> {
        self.context.abort.check()?;
        let (to, from) = (messages.to, messages.from);
        if self.broken.is_none() {
            let mut wait = MessageWait::start(&self.context, &mut self.inner, [from, to]);
            let mut failure = None;
            let after_look: AfterLook<'_> = &mut |moved| match wait.next(moved) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            };
            match self.fabric.exchange(messages, take_part, after_look) {
                Ok(ControlFlow::Continue(())) => return Ok(()),
                Ok(ControlFlow::Break(())) => self.fabric.abandon(),
                Err(error) => self.broken = Some((Instant::now(), error)),
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        // `FAB-3`: ends with the failure of a rank, or with the fabric's error.
        loop {
            self.wait_for_fabric(Some(to), Some(from), None)?;
        }
    }
}

/// What happens between two looks at messages that do not move.
struct MessageWait<'a, T> {
    context: &'a RankContext,
    inner: &'a mut T,
    peers: [Rank; 2],
    pacing: Pacing,
    end: Instant,
}

impl<'a, T: Transport> MessageWait<'a, T> {
    fn start(context: &'a RankContext, inner: &'a mut T, peers: [Rank; 2]) -> Self {
        Self {
            context,
            inner,
            peers,
            pacing: Pacing::of_messages(context.has_cores),
            end: Instant::now() + context.progress_timeout,
        }
    }

    fn next(&mut self, moved: bool) -> Result<()> {
        self.context.abort.check()?;
        let now = Instant::now();
        if moved {
            self.pacing = Pacing::of_messages(self.context.has_cores);
            self.end = now + self.context.progress_timeout;
            return Ok(());
        }
        if now >= self.end {
            return Err(self.inner.stalled(self.peers[0]));
        }
        let Some(sleep) = self.pacing.next(now) else {
            return Ok(());
        };
        let nothing = Interest::Data {
            send: None,
            recv: None,
        };
        self.inner.wait(nothing, Some(now + sleep))?;
        match lost_peer(self.context, self.peers) {
            Some(failure) => {
                self.context.abort.raise(failure);
                self.context.abort.check()
            }
            None => Ok(()),
        }
    }
}

/// `MSG-1`.
pub(super) fn are_apart(context: &RankContext, members: &[Rank]) -> bool {
    let mut hosts: Vec<_> = members
        .iter()
        .map(|&member| context.topology.leader_of(member))
        .collect();
    hosts.sort_unstable();
    members.len() > 1
        && hosts.windows(2).all(|pair| pair[0] != pair[1])
        && hosts.iter().all(Option::is_some)
}
