//! The cycle's side of the negotiation: what this rank and those below it announce goes up towards
//! rank 0, verdicts come down. Who speaks to whom is the business of `negotiate/voice.rs`.
//!
//! - `PASS-1` a verdict is on its way to everybody below before this rank begins to carry it out:
//!   no rank waits in an operation for another one that this rank keeps from hearing of it.
//! - `PASS-2` this rank insists on that, waiting for a slow child, only when it has carried out
//!   everything that it passed on before: the child may be in the middle of that, and needs this
//!   rank to come to its end.

use std::time::Instant;

use hvd_types::{Rank, Topology};
use hvd_wire::{Kind, Note, Ready, Verdict};

use super::Cycle;
use crate::negotiate::coordinator::Breach;
use crate::negotiate::relay::Route;
use crate::negotiate::voice::Upward;
use crate::{Error, Result};

impl Cycle {
    /// Says something to rank 0, or has it said with what others below have to say.
    pub(super) fn tell(&mut self, message: Ready) -> Result<()> {
        let message = self.voice.say(message, Instant::now());
        let message = message.map_err(|breach| blame(&self.topology, &breach))?;
        message.map_or(Ok(()), |message| self.post_upward(&message))
    }

    /// Passes up what was gathered from those below.
    pub(super) fn pass_up(&mut self) -> Result<()> {
        // Most ranks need not look at the clock for this, at every turn.
        if !self.voice.is_relay() {
            return Ok(());
        }
        let Some(message) = self.voice.gathered(Instant::now()) else {
            return Ok(());
        };
        self.post_upward(&message)?;
        self.control.flush(&mut *self.transport)
    }

    fn post_upward(&mut self, message: &Upward) -> Result<()> {
        let parent = self.voice.place().parent;
        let is_parent = |peer| Some(peer) == parent;
        let encode = |out: &mut Vec<u8>| message.encode(out);
        let count = self.control.post(Kind::Negotiation, is_parent, encode)?;
        self.counters.negotiation_messages.add(count);
        Ok(())
    }

    /// Reads what has arrived: words from below, verdicts from above, notes from everywhere.
    pub(super) fn listen(&mut self) -> Result<()> {
        let Self {
            control,
            transport,
            voice,
            topology,
            heard,
            roll_call,
            ..
        } = self;
        let parent = voice.place().parent;
        control.receive(&mut **transport, |peer, kind, bytes| {
            match kind {
                Kind::Note => roll_call.hear(peer, Note::decode(bytes).map_err(garbled(peer))?),
                Kind::Negotiation if Some(peer) == parent => {
                    heard.push_back(Verdict::decode(bytes).map_err(garbled(peer))?);
                }
                Kind::Negotiation => {
                    let result = voice.hear(peer, bytes, Instant::now());
                    result.map_err(|breach| blame(topology, &breach))?;
                }
            }
            Ok(())
        })
    }

    /// Passes on and carries out what rank 0 has decided, here or elsewhere; true if that was
    /// anything.
    pub(super) fn follow_verdicts(&mut self) -> Result<bool> {
        let mut any = false;
        if self.voice.hub().is_some() {
            for (verdict, route) in self.voice.decide(Instant::now()) {
                any = true;
                self.pass_down(verdict, &route)?;
            }
        }
        while let Some(verdict) = self.heard.pop_front() {
            any = true;
            let route = self.voice.route(&verdict);
            self.pass_down(verdict, &route)?;
        }
        self.carry_out_all()?;
        Ok(any)
    }

    fn pass_down(&mut self, verdict: Verdict, route: &Route) -> Result<()> {
        if !route.children.is_empty() {
            let addressed = |peer| route.children.contains(&peer);
            let encode = |out: &mut Vec<u8>| verdict.encode(out);
            let count = self.control.post(Kind::Negotiation, addressed, encode)?;
            self.counters.negotiation_messages.add(count);
            self.control.flush(&mut *self.transport)?;
            if self.control.holds_back(&route.children) {
                self.carry_out_all()?;
                self.control.insist(&mut *self.transport, &route.children)?;
            }
        }
        if route.mine {
            self.verdicts.push_back(verdict);
        }
        Ok(())
    }

    fn carry_out_all(&mut self) -> Result<()> {
        if !self.verdicts.is_empty() {
            self.observer.timeline.cycle_start();
        }
        while let Some(verdict) = self.verdicts.pop_front() {
            if let Some(initiator) = self.carry_out(verdict)? {
                self.fate = Some(Ok(initiator));
                self.verdicts.clear();
            }
        }
        Ok(())
    }
}

fn blame(topology: &Topology, Breach { rank, error }: &Breach) -> Error {
    let host = topology.host_name(*rank);
    Error::Internal(format!("rank {rank} on host `{host}` {error}"))
}

fn garbled(peer: Rank) -> impl FnOnce(hvd_wire::Error) -> Error {
    move |error| Error::Internal(format!("rank {peer} sent a bad message: {error}"))
}
