//! The lanes to all other ranks, connected or not.
//!
//! A lane is connected when one of its ranks first has something to send on it: by this rank's
//! [`LaneConnector`], or by the other rank's.

use std::fmt;
use std::time::Instant;

use hvd_types::Rank;

use super::bundle::Bundle;
use crate::{ConnectionCount, Lane, Result, Waker};

/// What connects lanes.
pub(crate) trait LaneConnector: Send + fmt::Debug {
    /// Begins to connect a lane, unless that was begun by either side. Does not wait for it.
    fn connect(&mut self, peer: Rank, lane: Lane);

    /// A lane that was connected, by whichever side, or could not be.
    fn next(&mut self) -> Option<(Rank, Lane, Result<Bundle>)>;

    /// Whether the other side has begun to connect a lane. What a rank did before it left is known
    /// by the time its leaving is.
    fn is_connecting_here(&self, peer: Rank, lane: Lane) -> bool;

    /// Has `waker` called whenever [`LaneConnector::next`] may return something.
    fn set_waker(&mut self, waker: Waker);
}

/// One lane to one peer.
#[derive(Debug)]
pub(super) enum LaneState {
    /// There is none: the peer is this rank itself, or is reached otherwise.
    None,
    /// It was not needed yet, or is being connected.
    Closed {
        begun: bool,
    },
    Open(Bundle),
    /// It could not be connected.
    Failed {
        since: Instant,
        reason: String,
    },
}

impl LaneState {
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
    pub(super) lanes: Vec<[LaneState; 2]>,
    connector: Option<Box<dyn LaneConnector>>,
    pub(super) count: ConnectionCount,
}

impl Links {
    /// Lanes to `size` ranks, of which those in `far` are connected by `connector`.
    pub(crate) fn new(size: usize, far: &[Rank], connector: Box<dyn LaneConnector>) -> Self {
        let mut lanes: Vec<[LaneState; 2]> = Vec::new();
        lanes.resize_with(size, || [LaneState::None, LaneState::None]);
        for peer in far {
            lanes[peer.index()] = Lane::ALL.map(|_| LaneState::Closed { begun: false });
        }
        let (connector, count) = (Some(connector), ConnectionCount::default());
        Self {
            lanes,
            connector,
            count,
        }
    }

    /// Lanes that are all connected.
    #[cfg(test)]
    pub(super) fn connected(lanes: Vec<[LaneState; 2]>) -> Self {
        Self {
            lanes,
            connector: None,
            count: ConnectionCount::default(),
        }
    }

    /// Has events of lanes end a wait.
    pub(super) fn set_waker(&mut self, waker: Waker) {
        if let Some(connector) = &mut self.connector {
            connector.set_waker(waker);
        }
    }

    pub(super) fn get(&self, peer: Rank, lane: Lane) -> &LaneState {
        let lanes = self.lanes.get(peer.index());
        lanes.map_or(&LaneState::None, |lanes| &lanes[lane as usize])
    }

    /// A lane's connections, if it has some by now.
    pub(super) fn open(&mut self, peer: Rank, lane: Lane) -> Option<&mut Bundle> {
        if matches!(self.get(peer, lane), LaneState::Closed { .. }) {
            self.take_events();
        }
        match &mut self.lanes.get_mut(peer.index())?[lane as usize] {
            LaneState::Open(bundle) => Some(bundle),
            _ => None,
        }
    }

    /// Has a lane connected that this rank needs, unless that was begun before.
    pub(super) fn connect(&mut self, peer: Rank, lane: Lane) {
        let link = self.lanes.get_mut(peer.index());
        let link = link.map(|lanes| &mut lanes[lane as usize]);
        if let (Some(connector), Some(LaneState::Closed { begun })) = (&mut self.connector, link)
            && !std::mem::replace(begun, true)
        {
            connector.connect(peer, lane);
        }
    }

    /// Whether neither side has begun to connect a lane, as far as the other side is concerned.
    pub(super) fn is_unused(&self, peer: Rank, lane: Lane) -> bool {
        let is_closed = matches!(self.get(peer, lane), LaneState::Closed { .. });
        let connector = self.connector.as_ref();
        is_closed && !connector.is_some_and(|connector| connector.is_connecting_here(peer, lane))
    }

    /// Takes in lanes that were connected, or failed.
    pub(super) fn take_events(&mut self) {
        let Some(connector) = &mut self.connector else {
            return;
        };
        while let Some((peer, lane, outcome)) = connector.next() {
            let Some(lanes) = self.lanes.get_mut(peer.index()) else {
                continue;
            };
            let link = &mut lanes[lane as usize];
            // A lane that is open was connected before the other side gave up.
            if matches!(link, LaneState::Closed { .. }) {
                *link = match outcome {
                    Ok(bundle) => {
                        self.count.add(bundle.strands().len());
                        LaneState::Open(bundle)
                    }
                    Err(error) => LaneState::Failed {
                        since: Instant::now(),
                        reason: error.to_string(),
                    },
                };
            }
        }
    }

    /// All connections.
    pub(super) fn bundles(&self) -> impl Iterator<Item = &Bundle> {
        self.lanes.iter().flatten().filter_map(LaneState::bundle)
    }
}
