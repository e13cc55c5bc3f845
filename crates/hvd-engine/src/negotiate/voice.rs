//! A rank's part in the negotiation: rank 0 decides, ranks with others below them in the tree pass
//! words up and response lists down, all others speak for themselves.
//!
//! Messages come and go as bytes of the wire; who carries them is somebody else's business.

use std::time::{Duration, Instant};

use hvd_types::Rank;
use hvd_wire::{MergedRequestLists, RequestList, ResponseList};

use super::coordinator::{Breach, ProtocolError};
use super::hub::{AddressedResponses, Hub};
use super::relay::{Relay, Route};
use super::tree::Place;
use crate::stall::StallReport;

/// One rank's part.
#[derive(Debug)]
pub(crate) struct Voice {
    place: Place,
    role: Role,
}

#[derive(Debug)]
enum Role {
    Root(Box<Hub>),
    Relay(Box<Relay>),
    Leaf,
}

/// What a rank has to tell its parent.
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

impl Voice {
    /// The part of a rank at its place; rank 0 brings the hub.
    pub(crate) fn new(place: Place, hub: Option<Hub>, hold: Duration) -> Self {
        let role = match hub {
            Some(hub) => Role::Root(Box::new(hub)),
            None if place.children.is_empty() => Role::Leaf,
            None => Role::Relay(Box::new(Relay::new(place.clone(), hold))),
        };
        Self { place, role }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Whether this rank passes on what others say.
    pub(crate) fn is_relay(&self) -> bool {
        matches!(self.role, Role::Relay(_))
    }

    /// On rank 0: who decides.
    pub(crate) fn hub(&self) -> Option<&Hub> {
        match &self.role {
            Role::Root(hub) => Some(hub),
            Role::Relay(_) | Role::Leaf => None,
        }
    }

    /// Takes what this rank itself has to say. What is to be passed up at once, if anything.
    pub(crate) fn say(
        &mut self,
        message: RequestList,
        now: Instant,
    ) -> Result<Option<Upward>, Breach> {
        let rank = self.place.rank;
        match &mut self.role {
            Role::Root(hub) => {
                let breach = |error| Breach { rank, error };
                hub.hear(rank, message, now).map_err(breach)?;
                Ok(None)
            }
            Role::Relay(relay) => relay.hear_ready(rank, message, now).map(|()| None),
            Role::Leaf => Ok(Some(Upward::RequestList(message))),
        }
    }

    /// Takes in what a child has to say.
    pub(crate) fn hear(&mut self, from: Rank, bytes: &[u8], now: Instant) -> Result<(), Breach> {
        let breach = |error| Breach { rank: from, error };
        let garbled = |error| breach(ProtocolError::Garbled(error));
        let mut children = self.place.children.iter();
        let child = children.find(|child| child.rank == from);
        let child = child.ok_or_else(|| breach(ProtocolError::NotBelow))?;
        match (&mut self.role, child.is_leaf()) {
            (Role::Root(hub), true) => {
                let message = RequestList::decode(bytes).map_err(garbled)?;
                hub.hear(from, message, now).map_err(breach)
            }
            (Role::Root(hub), false) => {
                let message = MergedRequestLists::decode(bytes).map_err(garbled)?;
                hub.hear_gathered(&child.below, message, now)
            }
            (Role::Relay(relay), true) => {
                let message = RequestList::decode(bytes).map_err(garbled)?;
                relay.hear_ready(from, message, now)
            }
            (Role::Relay(relay), false) => {
                let message = MergedRequestLists::decode(bytes).map_err(garbled)?;
                relay.hear(from, message, now)
            }
            (Role::Leaf, _) => Err(breach(ProtocolError::NotBelow)),
        }
    }

    /// What was gathered and is to be passed up now, if anything.
    pub(crate) fn gathered(&mut self, now: Instant) -> Option<Upward> {
        match &mut self.role {
            Role::Relay(relay) => relay.take_upward(now).map(Upward::MergedRequestLists),
            Role::Root(_) | Role::Leaf => None,
        }
    }

    /// On rank 0: what is decided now, and whom it is for.
    pub(crate) fn decide(&mut self, now: Instant) -> Vec<(ResponseList, Route)> {
        let Role::Root(hub) = &mut self.role else {
            return Vec::new();
        };
        let place = &self.place;
        let addressed = |AddressedResponses {
                             members,
                             response_list,
                         }| {
            let route = Route {
                children: place.towards(&members).collect(),
                mine: members.binary_search(&place.rank).is_ok(),
            };
            (response_list, route)
        };
        hub.decide(now).into_iter().map(addressed).collect()
    }

    /// Whom a response list from the parent is for.
    pub(crate) fn route(&mut self, response_list: &ResponseList) -> Route {
        match &mut self.role {
            Role::Relay(relay) => relay.route(response_list),
            Role::Root(_) | Role::Leaf => Route {
                children: Vec::new(),
                mine: true,
            },
        }
    }

    /// When something is to be decided or passed up even if nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.role {
            Role::Root(hub) => hub.due(),
            Role::Relay(relay) => relay.due(),
            Role::Leaf => None,
        }
    }

    /// On rank 0: what there is to say about stalled tensors.
    pub(crate) fn look_for_stalls(&mut self, now: Instant) -> Vec<StallReport> {
        match &mut self.role {
            Role::Root(hub) => hub.look_for_stalls(now),
            Role::Relay(_) | Role::Leaf => Vec::new(),
        }
    }
}
