//! One rank's negotiation: what it and the ranks below it announce goes up towards rank 0, response
//! lists come down. Owns the control channel, the rank's [`ControlRole`], the response lists in
//! flight and the deadline of a shutdown that was asked for.
//!
//! It carries nothing out: the cycle takes response lists from
//! [`NegotiationSession::next_response_list`] when it can. Nor does it know schedules; it only
//! sends and delivers their notices, which share the channel.
//!
//! - `PASS-1` a response list is on its way to all ranks below before this rank begins to carry it
//!   out: no rank waits in an operation for another one to which this rank has not passed it on.
//! - `PASS-2` this rank insists on that, waiting for a slow child, only when it has carried out
//!   everything that it passed on before: the child may be in the middle of that, and needs this
//!   rank to come to its end. [`PassDown::Blocked`] is the point at which the cycle does that.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use std::vec;

use hvd_transport::{Transport, Wake};
use hvd_types::{Rank, Topology};
use hvd_wire::{MessageKind, ReadyNotice, RequestList, ResponseList};

use super::coordinator::Breach;
use super::relay::ResponseRoute;
use super::role::{ControlRole, Upward};
use crate::control::ControlChannel;
use crate::counters::Counters;
use crate::stall::StallReport;
use crate::{Error, Result};

/// What a rank has in flight in the negotiation.
#[derive(Debug)]
pub(crate) struct NegotiationSession {
    control: ControlChannel,
    role: ControlRole,
    /// Names the host of a rank that breaks the protocol.
    topology: Topology,
    /// On rank 0: what was decided and not yet passed on.
    decided: vec::IntoIter<(ResponseList, ResponseRoute)>,
    /// Response lists that have arrived and were not yet passed on.
    received: VecDeque<ResponseList>,
    /// A response list that a slow child has not yet taken.
    blocked: Option<(ResponseList, ResponseRoute)>,
    /// Response lists that were passed on and not yet carried out.
    passed_on: VecDeque<ResponseList>,
    /// Until when rank 0 has to answer a request for shutdown.
    shutdown_answer_due: Option<Instant>,
    counters: Arc<Counters>,
}

/// What came of an attempt to pass a response list on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassDown {
    /// There is none.
    Nothing,
    /// One is on its way.
    Passed,
    /// A child cannot take one now. Before [`NegotiationSession::insist`] waits for the child,
    /// everything that was passed on before has to be carried out (`PASS-2`).
    Blocked,
}

impl NegotiationSession {
    /// A session of a rank with its role. The channel also reaches `partners`, with which the rank
    /// exchanges notices.
    pub(crate) fn new(
        role: ControlRole,
        partners: &[Rank],
        topology: Topology,
        counters: Arc<Counters>,
    ) -> Self {
        let neighbours = role.place().neighbours();
        let peers: BTreeSet<Rank> = neighbours.chain(partners.iter().copied()).collect();
        Self {
            control: ControlChannel::new(peers.into_iter()),
            role,
            topology,
            decided: Vec::new().into_iter(),
            received: VecDeque::new(),
            blocked: None,
            passed_on: VecDeque::new(),
            shutdown_answer_due: None,
            counters,
        }
    }

    /// Announces something to rank 0: posts it, or has it merged with what ranks below announce.
    pub(crate) fn announce(&mut self, message: RequestList) -> Result<()> {
        let message = self.role.send(message, Instant::now());
        let message = message.map_err(|breach| blame(&self.topology, &breach))?;
        message.map_or(Ok(()), |message| self.post_upward(&message))
    }

    /// Passes up what was gathered from the ranks below.
    pub(crate) fn pass_up(&mut self, transport: &mut dyn Transport) -> Result<()> {
        // Most ranks need not look at the clock for this, at every turn.
        if !self.role.is_relay() {
            return Ok(());
        }
        let Some(message) = self.role.gathered(Instant::now()) else {
            return Ok(());
        };
        self.post_upward(&message)?;
        self.control.flush(transport)
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

    /// Sends a notice of a schedule.
    pub(crate) fn send_notice(
        &mut self,
        transport: &mut dyn Transport,
        notice: &ReadyNotice,
        to: &[Rank],
    ) -> Result<()> {
        let addressed = |peer| to.contains(&peer);
        let encode = |out: &mut Vec<u8>| notice.encode(out);
        let count = self
            .control
            .post(MessageKind::ReadyNotice, addressed, encode)?;
        self.counters.ready_notices.add(count);
        self.control.flush(transport)
    }

    /// Returns when all notices to `partners` have left.
    pub(crate) fn finish_notices(
        &mut self,
        transport: &mut dyn Transport,
        partners: &[Rank],
    ) -> Result<()> {
        if self.control.holds_back(partners) {
            self.control.insist(transport, partners)?;
        }
        Ok(())
    }

    /// Sends what can be sent now.
    pub(crate) fn flush(&mut self, transport: &mut dyn Transport) -> Result<()> {
        self.control.flush(transport)
    }

    /// Reads what has arrived: announcements from below, response lists from above, and notices,
    /// which go to `take_notice`.
    pub(crate) fn receive(
        &mut self,
        transport: &mut dyn Transport,
        mut take_notice: impl FnMut(Rank, ReadyNotice),
    ) -> Result<()> {
        let Self {
            control,
            role,
            topology,
            received,
            ..
        } = self;
        let parent = role.place().parent;
        control.receive(transport, |peer, kind, bytes| {
            match kind {
                MessageKind::ReadyNotice => {
                    take_notice(peer, ReadyNotice::decode(bytes).map_err(garbled(peer))?);
                }
                MessageKind::Negotiation if Some(peer) == parent => {
                    received.push_back(ResponseList::decode(bytes).map_err(garbled(peer))?);
                }
                MessageKind::Negotiation => {
                    let result = role.receive(peer, bytes, Instant::now());
                    result.map_err(|breach| blame(topology, &breach))?;
                }
            }
            Ok(())
        })
    }

    /// On rank 0: decides what can be decided now, for [`Self::pass_down`].
    pub(crate) fn decide(&mut self) {
        if self.role.hub().is_some() {
            self.decided = self.role.decide(Instant::now()).into_iter();
        }
    }

    /// Passes on the next response list, if there is one (`PASS-1`).
    pub(crate) fn pass_down(&mut self, transport: &mut dyn Transport) -> Result<PassDown> {
        let Some((response_list, route)) = self.next_unrouted() else {
            return Ok(PassDown::Nothing);
        };
        if !route.children.is_empty() {
            let addressed = |peer| route.children.contains(&peer);
            let encode = |out: &mut Vec<u8>| response_list.encode(out);
            let count = self
                .control
                .post(MessageKind::Negotiation, addressed, encode)?;
            self.counters.negotiation_messages.add(count);
            self.control.flush(transport)?;
            if self.control.holds_back(&route.children) {
                self.blocked = Some((response_list, route));
                return Ok(PassDown::Blocked);
            }
        }
        self.keep_if_mine(response_list, &route);
        Ok(PassDown::Passed)
    }

    fn next_unrouted(&mut self) -> Option<(ResponseList, ResponseRoute)> {
        if let Some(decided) = self.decided.next() {
            return Some(decided);
        }
        let response_list = self.received.pop_front()?;
        let route = self.role.route(&response_list);
        Some((response_list, route))
    }

    /// Waits until the children have taken the response list that was blocked.
    pub(crate) fn insist(&mut self, transport: &mut dyn Transport) -> Result<()> {
        if let Some((response_list, route)) = self.blocked.take() {
            self.control.insist(transport, &route.children)?;
            self.keep_if_mine(response_list, &route);
        }
        Ok(())
    }

    fn keep_if_mine(&mut self, response_list: ResponseList, route: &ResponseRoute) {
        if route.mine {
            self.passed_on.push_back(response_list);
        }
    }

    /// Whether there is a response list to be carried out.
    pub(crate) fn has_response_lists(&self) -> bool {
        !self.passed_on.is_empty()
    }

    /// The next response list to be carried out here.
    pub(crate) fn next_response_list(&mut self) -> Option<ResponseList> {
        self.passed_on.pop_front()
    }

    /// Forgets the response lists to be carried out, because one of them ended the engine.
    pub(crate) fn drop_response_lists(&mut self) {
        self.passed_on.clear();
    }

    /// This rank has asked for shutdown; rank 0 has to answer in time.
    pub(crate) fn await_shutdown(&mut self, due: Instant) {
        self.shutdown_answer_due = Some(due);
    }

    /// Until when rank 0 has to answer this rank's request for shutdown; none if there was none.
    pub(crate) fn shutdown_answer_due(&self) -> Option<Instant> {
        self.shutdown_answer_due
    }

    /// When something is to be decided or passed up even if nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.role.due()
    }

    /// Sleeps until a message may have arrived, held-back bytes may go, the transport is woken or
    /// the deadline passes.
    pub(crate) fn wait(
        &self,
        transport: &mut dyn Transport,
        deadline: Option<Instant>,
    ) -> Result<Wake> {
        self.control.wait(transport, deadline)
    }

    /// On rank 0: when to look for stalled tensors next.
    pub(crate) fn next_stall_check(&self) -> Option<Instant> {
        self.role.hub()?.next_stall_check()
    }

    /// On rank 0: reports about stalled tensors.
    pub(crate) fn look_for_stalls(&mut self, now: Instant) -> Vec<StallReport> {
        self.role.look_for_stalls(now)
    }
}

fn blame(topology: &Topology, Breach { rank, error }: &Breach) -> Error {
    let host = topology.host_name(*rank);
    Error::Internal(format!("rank {rank} on host `{host}` {error}"))
}

fn garbled(peer: Rank) -> impl FnOnce(hvd_wire::Error) -> Error {
    move |error| Error::Internal(format!("rank {peer} sent a bad message: {error}"))
}

#[cfg(test)]
mod tests;
