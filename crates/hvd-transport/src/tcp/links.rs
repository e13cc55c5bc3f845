//! The lanes to all other ranks, connected or not.
//!
//! A lane is connected when somebody first has something to send on it: this rank, which then has
//! its [`Operator`] call the other, or the other rank, which then calls here.

use std::fmt;
use std::time::Instant;

use hvd_types::Rank;

use super::bundle::Bundle;
use crate::{ConnectionCount, Lane, Result, Waker};

/// What connects lanes.
pub(crate) trait Operator: Send + fmt::Debug {
    /// Begins to connect a lane, unless that was begun by either side. Does not wait for it.
    fn call(&mut self, peer: Rank, lane: Lane);

    /// A lane that was connected, by whichever side, or could not be.
    fn next(&mut self) -> Option<(Rank, Lane, Result<Bundle>)>;

    /// Whether the other side has begun to connect a lane. What a rank did before it left is known
    /// by the time its leaving is.
    fn is_called(&self, peer: Rank, lane: Lane) -> bool;

    /// Has `waker` called whenever there may be a next.
    fn on_news(&mut self, waker: Waker);
}

/// One lane to one peer.
#[derive(Debug)]
pub(super) enum Link {
    /// There is none: the peer is this rank itself, or is reached otherwise.
    None,
    /// Nobody has needed it yet, or it is being connected.
    Closed {
        called: bool,
    },
    Open(Bundle),
    /// It could not be connected.
    Failed {
        since: Instant,
        reason: String,
    },
}

impl Link {
    pub(super) fn bundle(&self) -> Option<&Bundle> {
        match self {
            Self::Open(bundle) => Some(bundle),
            _ => None,
        }
    }

    /// Since when nothing moves on it any more, if that is so.
    pub(super) fn ended(&self) -> Option<Instant> {
        match self {
            Self::Open(bundle) => bundle.ended(),
            Self::Failed { since, .. } => Some(*since),
            Self::None | Self::Closed { .. } => None,
        }
    }
}

/// By rank, both lanes to it.
#[derive(Debug)]
pub(crate) struct Links {
    pub(super) lanes: Vec<[Link; 2]>,
    operator: Option<Box<dyn Operator>>,
    pub(super) count: ConnectionCount,
}

impl Links {
    /// Lanes to so many ranks, of which those in `far` are called by `operator`.
    pub(crate) fn new(size: usize, far: &[Rank], operator: Box<dyn Operator>) -> Self {
        let mut lanes: Vec<[Link; 2]> = Vec::new();
        lanes.resize_with(size, || [Link::None, Link::None]);
        for peer in far {
            lanes[peer.index()] = Lane::ALL.map(|_| Link::Closed { called: false });
        }
        let (operator, count) = (Some(operator), ConnectionCount::default());
        Self {
            lanes,
            operator,
            count,
        }
    }

    /// Lanes that are all connected.
    #[cfg(test)]
    pub(super) fn connected(lanes: Vec<[Link; 2]>) -> Self {
        Self {
            lanes,
            operator: None,
            count: ConnectionCount::default(),
        }
    }

    /// Has news of lanes end a wait.
    pub(super) fn on_news(&mut self, waker: Waker) {
        if let Some(operator) = &mut self.operator {
            operator.on_news(waker);
        }
    }

    pub(super) fn get(&self, peer: Rank, lane: Lane) -> &Link {
        let lanes = self.lanes.get(peer.index());
        lanes.map_or(&Link::None, |lanes| &lanes[lane as usize])
    }

    /// A lane's connections, if it has some by now.
    pub(super) fn open(&mut self, peer: Rank, lane: Lane) -> Option<&mut Bundle> {
        if matches!(self.get(peer, lane), Link::Closed { .. }) {
            self.take_news();
        }
        match &mut self.lanes.get_mut(peer.index())?[lane as usize] {
            Link::Open(bundle) => Some(bundle),
            _ => None,
        }
    }

    /// Has a lane connected that this rank needs, if nobody has begun to.
    pub(super) fn call(&mut self, peer: Rank, lane: Lane) {
        let link = self.lanes.get_mut(peer.index());
        let link = link.map(|lanes| &mut lanes[lane as usize]);
        if let (Some(operator), Some(Link::Closed { called })) = (&mut self.operator, link)
            && !std::mem::replace(called, true)
        {
            operator.call(peer, lane);
        }
    }

    /// Whether nobody has begun to connect a lane, as far as the other side is concerned.
    pub(super) fn is_unused(&self, peer: Rank, lane: Lane) -> bool {
        let is_closed = matches!(self.get(peer, lane), Link::Closed { .. });
        let operator = self.operator.as_ref();
        is_closed && !operator.is_some_and(|operator| operator.is_called(peer, lane))
    }

    /// Takes in what has become of lanes.
    pub(super) fn take_news(&mut self) {
        let Some(operator) = &mut self.operator else {
            return;
        };
        while let Some((peer, lane, outcome)) = operator.next() {
            let Some(lanes) = self.lanes.get_mut(peer.index()) else {
                continue;
            };
            let link = &mut lanes[lane as usize];
            // A lane that is open was connected before the other side gave up.
            if matches!(link, Link::Closed { .. }) {
                *link = match outcome {
                    Ok(bundle) => {
                        self.count.add(bundle.strands().len());
                        Link::Open(bundle)
                    }
                    Err(error) => Link::Failed {
                        since: Instant::now(),
                        reason: error.to_string(),
                    },
                };
            }
        }
    }

    /// All connections.
    pub(super) fn bundles(&self) -> impl Iterator<Item = &Bundle> {
        self.lanes.iter().flatten().filter_map(Link::bundle)
    }
}
