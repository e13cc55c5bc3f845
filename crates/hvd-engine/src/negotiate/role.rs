//! A rank's role in the negotiation: rank 0 decides, ranks with others below them in the tree pass
//! requests up and response lists down, leaves send their own requests.
//!
//! Messages come and go as bytes of the wire; `session.rs` moves them.

use std::time::{Duration, Instant};

use hvd_types::Rank;
use hvd_wire::{MergedRequestLists, RequestList, ResponseList};

use super::coordinator::{Breach, ProtocolError};
use super::hub::{AddressedResponses, Hub};
use super::relay::{Relay, ResponseRoute};
use super::tree::TreePosition;
use crate::stall::StallReport;

/// One rank's role.
#[derive(Debug)]
pub(crate) struct ControlRole {
    place: TreePosition,
    kind: RoleKind,
}

#[derive(Debug)]
enum RoleKind {
    Root(Box<Hub>),
    Relay(Box<Relay>),
    Leaf,
}

/// What a rank sends to its parent.
#[derive(Debug)]
pub(crate) enum Upward {
    /// For itself.
    RequestList(RequestList),
    /// For all below it.
    MergedRequestLists(MergedRequestLists),
}

impl Upward {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::RequestList(message) => message.encode(out),
            Self::MergedRequestLists(message) => message.encode(out),
        }
    }
}

impl ControlRole {
    /// The role of a rank at its position; rank 0 brings the hub.
    pub(crate) fn new(place: TreePosition, hub: Option<Hub>, hold: Duration) -> Self {
        let kind = match hub {
            Some(hub) => RoleKind::Root(Box::new(hub)),
            None if place.children.is_empty() => RoleKind::Leaf,
            None => RoleKind::Relay(Box::new(Relay::new(place.clone(), hold))),
        };
        Self { place, kind }
    }

    pub(crate) fn place(&self) -> &TreePosition {
        &self.place
    }

    /// Whether this rank passes on the requests of others.
    pub(crate) fn is_relay(&self) -> bool {
        matches!(self.kind, RoleKind::Relay(_))
    }

    /// On rank 0: the hub, which decides.
    pub(crate) fn hub(&self) -> Option<&Hub> {
        match &self.kind {
            RoleKind::Root(hub) => Some(hub),
            RoleKind::Relay(_) | RoleKind::Leaf => None,
        }
    }

    /// Takes this rank's own requests. Returns what is to be passed up at once, if anything.
    pub(crate) fn send(
        &mut self,
        message: RequestList,
        now: Instant,
    ) -> Result<Option<Upward>, Breach> {
        let rank = self.place.rank;
        match &mut self.kind {
            RoleKind::Root(hub) => {
                let breach = |error| Breach { rank, error };
                hub.receive(rank, message, now).map_err(breach)?;
                Ok(None)
            }
            RoleKind::Relay(relay) => relay.receive(rank, message, now).map(|()| None),
            RoleKind::Leaf => Ok(Some(Upward::RequestList(message))),
        }
    }

    /// Takes in a child's message.
    pub(crate) fn receive(&mut self, from: Rank, bytes: &[u8], now: Instant) -> Result<(), Breach> {
        let breach = |error| Breach { rank: from, error };
        let garbled = |error| breach(ProtocolError::Garbled(error));
        let mut children = self.place.children.iter();
        let child = children.find(|child| child.rank == from);
        let child = child.ok_or_else(|| breach(ProtocolError::NotBelow))?;
        match (&mut self.kind, child.is_leaf()) {
            (RoleKind::Root(hub), true) => {
                let message = RequestList::decode(bytes).map_err(garbled)?;
                hub.receive(from, message, now).map_err(breach)
            }
            (RoleKind::Root(hub), false) => {
                let message = MergedRequestLists::decode(bytes).map_err(garbled)?;
                hub.receive_merged(&child.below, message, now)
            }
            (RoleKind::Relay(relay), true) => {
                let message = RequestList::decode(bytes).map_err(garbled)?;
                relay.receive(from, message, now)
            }
            (RoleKind::Relay(relay), false) => {
                let message = MergedRequestLists::decode(bytes).map_err(garbled)?;
                relay.receive_merged(from, message, now)
            }
            (RoleKind::Leaf, _) => Err(breach(ProtocolError::NotBelow)),
        }
    }

    /// What was gathered and is to be passed up now, if anything.
    pub(crate) fn gathered(&mut self, now: Instant) -> Option<Upward> {
        match &mut self.kind {
            RoleKind::Relay(relay) => relay.take_upward(now).map(Upward::MergedRequestLists),
            RoleKind::Root(_) | RoleKind::Leaf => None,
        }
    }

    /// On rank 0: what is decided now, and its route.
    pub(crate) fn decide(&mut self, now: Instant) -> Vec<(ResponseList, ResponseRoute)> {
        let RoleKind::Root(hub) = &mut self.kind else {
            return Vec::new();
        };
        let place = &self.place;
        let addressed = |AddressedResponses {
                             members,
                             response_list,
                         }| {
            let route = ResponseRoute {
                children: place.towards(&members).collect(),
                mine: members.binary_search(&place.rank).is_ok(),
            };
            (response_list, route)
        };
        hub.decide(now).into_iter().map(addressed).collect()
    }

    /// The route of a response list from the parent.
    pub(crate) fn route(&mut self, response_list: &ResponseList) -> ResponseRoute {
        match &mut self.kind {
            RoleKind::Relay(relay) => relay.route(response_list),
            RoleKind::Root(_) | RoleKind::Leaf => ResponseRoute {
                children: Vec::new(),
                mine: true,
            },
        }
    }

    /// When something is to be decided or passed up even if nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.kind {
            RoleKind::Root(hub) => hub.due(),
            RoleKind::Relay(relay) => relay.due(),
            RoleKind::Leaf => None,
        }
    }

    /// On rank 0: reports about stalled tensors.
    pub(crate) fn look_for_stalls(&mut self, now: Instant) -> Vec<StallReport> {
        match &mut self.kind {
            RoleKind::Root(hub) => hub.look_for_stalls(now),
            RoleKind::Relay(_) | RoleKind::Leaf => Vec::new(),
        }
    }
}
