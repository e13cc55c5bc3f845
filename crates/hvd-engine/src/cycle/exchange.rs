//! The cycle's side of the negotiation: what this rank and those below it announce goes up towards
//! rank 0, response lists come down. Who speaks to whom is the business of `negotiate/role.rs`.
//!
//! - `PASS-1` a response list is on its way to everybody below before this rank begins to carry it out:
//!   no rank waits in an operation for another one that this rank keeps from hearing of it.
//! - `PASS-2` this rank insists on that, waiting for a slow child, only when it has carried out
//!   everything that it passed on before: the child may be in the middle of that, and needs this
//!   rank to come to its end.

use std::time::Instant;

use hvd_types::{Rank, Topology};
use hvd_wire::{MessageKind, ReadyNotice, RequestList, ResponseList};

use super::Cycle;
use crate::negotiate::coordinator::Breach;
use crate::negotiate::relay::ResponseRoute;
use crate::negotiate::role::Upward;
use crate::{Error, Result};

impl Cycle {
    /// Says something to rank 0, or has it said with what others below have to say.
    pub(super) fn tell(&mut self, message: RequestList) -> Result<()> {
        let message = self.role.send(message, Instant::now());
        let message = message.map_err(|breach| blame(&self.topology, &breach))?;
        message.map_or(Ok(()), |message| self.post_upward(&message))
    }

    /// Passes up what was gathered from those below.
    pub(super) fn pass_up(&mut self) -> Result<()> {
        // Most ranks need not look at the clock for this, at every turn.
        if !self.role.is_relay() {
            return Ok(());
        }
        let Some(message) = self.role.gathered(Instant::now()) else {
            return Ok(());
        };
        self.post_upward(&message)?;
        self.control.flush(&mut *self.transport)
    }

    fn post_upward(&mut self, message: &Upward) -> Result<()> {
        let parent = self.role.place().parent;
        let is_parent = |peer| Some(peer) == parent;
        let encode = |out: &mut Vec<u8>| message.encode(out);
        let count = self
            .control
            .post(MessageKind::Negotiation, is_parent, encode)?;
        self.counters.negotiation_messages.add(count);
        Ok(())
    }

    /// Reads what has arrived: words from below, response lists from above, notices from everywhere.
    pub(super) fn listen(&mut self) -> Result<()> {
        let Self {
            control,
            transport,
            role,
            topology,
            heard,
            ready_barrier,
            ..
        } = self;
        let parent = role.place().parent;
        control.receive(&mut **transport, |peer, kind, bytes| {
            match kind {
                MessageKind::ReadyNotice => {
                    ready_barrier.receive(peer, ReadyNotice::decode(bytes).map_err(garbled(peer))?);
                }
                MessageKind::Negotiation if Some(peer) == parent => {
                    heard.push_back(ResponseList::decode(bytes).map_err(garbled(peer))?);
                }
                MessageKind::Negotiation => {
                    let result = role.receive(peer, bytes, Instant::now());
                    result.map_err(|breach| blame(topology, &breach))?;
                }
            }
            Ok(())
        })
    }

    /// Passes on and carries out what rank 0 has decided, here or elsewhere; true if that was
    /// anything.
    pub(super) fn follow_response_lists(&mut self) -> Result<bool> {
        let mut any = false;
        if self.role.hub().is_some() {
            for (response_list, route) in self.role.decide(Instant::now()) {
                any = true;
                self.pass_down(response_list, &route)?;
            }
        }
        while let Some(response_list) = self.heard.pop_front() {
            any = true;
            let route = self.role.route(&response_list);
            self.pass_down(response_list, &route)?;
        }
        self.carry_out_all()?;
        Ok(any)
    }

    fn pass_down(&mut self, response_list: ResponseList, route: &ResponseRoute) -> Result<()> {
        if !route.children.is_empty() {
            let addressed = |peer| route.children.contains(&peer);
            let encode = |out: &mut Vec<u8>| response_list.encode(out);
            let count = self
                .control
                .post(MessageKind::Negotiation, addressed, encode)?;
            self.counters.negotiation_messages.add(count);
            self.control.flush(&mut *self.transport)?;
            if self.control.holds_back(&route.children) {
                self.carry_out_all()?;
                self.control.insist(&mut *self.transport, &route.children)?;
            }
        }
        if route.mine {
            self.response_lists.push_back(response_list);
        }
        Ok(())
    }

    fn carry_out_all(&mut self) -> Result<()> {
        if !self.response_lists.is_empty() {
            self.observer.timeline.cycle_start();
        }
        while let Some(response_list) = self.response_lists.pop_front() {
            if let Some(initiator) = self.carry_out(response_list)? {
                self.exit_status = Some(Ok(initiator));
                self.response_lists.clear();
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
