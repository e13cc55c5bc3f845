//! Lanes that are connected when one of their two ranks first has something to send.
//!
//! The rank that needs a lane has a thread connect it and continues; the other one's port accepts it.
//! If both begin at once, [`super::tie_break`] says whose attempt counts. The result is an event that
//! ends the transport's wait.
//!
//! - `LAZY-1` a lane is handed over when all of its connections are there.
//! - `LAZY-2` every attempt ends within [`MeshOptions::progress_timeout`](super::MeshOptions), and an
//!   error names the rank, its host and its address.
//! - `LAZY-3` the port stays open for as long as the transport is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use hvd_rendezvous::{Purpose, deadline};
use hvd_types::Rank;

use super::directory::PeerDirectory;
use super::incoming::{ConnectionEvent, EventSender, Incoming};
use crate::secure_connection::SecureConnection;
use crate::tcp::{Bundle, LaneConnector};
use crate::{Lane, Result, StoreError, Waker};

/// How many connections are made at a time. The other ranks do the same, so more would only wait
/// in line.
const MAX_THREADS: usize = 16;

/// What connects lanes while the job runs.
#[derive(Debug)]
pub(super) struct LazyConnector {
    directory: Arc<PeerDirectory>,
    incoming: Incoming,
    dialers: Arc<Mutex<Dialers>>,
}

/// The lanes that are to be connected, and how many threads do it.
#[derive(Debug, Default)]
struct Dialers {
    waiting: VecDeque<(Rank, Lane)>,
    threads: usize,
}

impl LazyConnector {
    pub(super) fn new(directory: Arc<PeerDirectory>, incoming: Incoming) -> Self {
        let dialers = Arc::default();
        Self {
            directory,
            incoming,
            dialers,
        }
    }

    /// A lane all of whose connections have arrived, of those to `peer`.
    fn complete(&mut self, peer: Rank, purpose: Purpose) -> Option<(Lane, Vec<SecureConnection>)> {
        let lane = lane_of(purpose)?;
        let keys: Vec<_> = (0..self.directory.strands(peer, lane))
            .map(|number| (peer, purpose, number))
            .collect();
        let arrived = &mut self.incoming.arrived;
        if keys.iter().any(|key| !arrived.contains_key(key)) {
            return None;
        }
        Some((
            lane,
            keys.iter().filter_map(|key| arrived.remove(key)).collect(),
        ))
    }

    fn start_dialer(&self) -> Result<()> {
        let (directory, event_sender) = (
            Arc::clone(&self.directory),
            self.incoming.event_sender.clone(),
        );
        let dialers = Arc::clone(&self.dialers);
        thread::Builder::new()
            .name("hvd-dial".to_owned())
            .spawn(move || {
                while let Some((peer, lane)) = next(&dialers) {
                    let outcome = dial(&directory, peer, lane);
                    event_sender.send(ConnectionEvent::Dialed(peer, lane, outcome));
                }
            })
            .map_err(StoreError::thread("hvd-dial"))?;
        Ok(())
    }
}

impl LaneConnector for LazyConnector {
    fn connect(&mut self, peer: Rank, lane: Lane) {
        if !self.incoming.tie_break().begin(peer, purpose_of(lane)) {
            return;
        }
        let mut dialers = lock(&self.dialers);
        dialers.waiting.push_back((peer, lane));
        if dialers.threads == MAX_THREADS {
            return;
        }
        dialers.threads += 1;
        drop(dialers);
        if let Err(error) = self.start_dialer() {
            let mut dialers = lock(&self.dialers);
            dialers.threads -= 1;
            // Others may still do it.
            if dialers.threads == 0 {
                dialers.waiting.clear();
                drop(dialers);
                let event_sender: &EventSender = &self.incoming.event_sender;
                event_sender.send(ConnectionEvent::Dialed(peer, lane, Err(error)));
            }
        }
    }

    fn next(&mut self) -> Option<(Rank, Lane, Result<Bundle>)> {
        loop {
            match self.incoming.events.try_recv().ok()? {
                ConnectionEvent::Aborted | ConnectionEvent::Dialed(_, _, Ok(None)) => {}
                ConnectionEvent::Dialed(peer, lane, outcome) => {
                    let streams = outcome.map(Option::unwrap_or_default);
                    let bundle = streams.and_then(|streams| self.directory.bundle(lane, streams));
                    return Some((peer, lane, bundle));
                }
                ConnectionEvent::Arrived(key, stream) => {
                    self.incoming.arrived.entry(key).or_insert(stream);
                    if let Some((lane, streams)) = self.complete(key.0, key.1) {
                        return Some((key.0, lane, self.directory.bundle(lane, streams)));
                    }
                }
            }
        }
    }

    fn is_connecting_here(&self, peer: Rank, lane: Lane) -> bool {
        let tie_break = self.incoming.tie_break();
        tie_break.is_peer_connecting(peer, purpose_of(lane))
    }

    fn set_waker(&mut self, waker: Waker) {
        self.incoming.event_sender.set_waker(waker);
        // Connections that arrived before there was a waker are sent once more.
        for (key, stream) in std::mem::take(&mut self.incoming.arrived) {
            self.incoming
                .event_sender
                .send(ConnectionEvent::Arrived(key, stream));
        }
    }
}

/// The next lane to connect, for a thread that ends if there is none.
fn next(dialers: &Mutex<Dialers>) -> Option<(Rank, Lane)> {
    let mut dialers = lock(dialers);
    let next = dialers.waiting.pop_front();
    if next.is_none() {
        dialers.threads -= 1;
    }
    next
}

fn lock(dialers: &Mutex<Dialers>) -> std::sync::MutexGuard<'_, Dialers> {
    dialers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes all connections of a lane; none if the other rank does.
fn dial(
    directory: &PeerDirectory,
    peer: Rank,
    lane: Lane,
) -> Result<Option<Vec<SecureConnection>>> {
    let end = deadline::after(directory.options.progress_timeout);
    (0..directory.strands(peer, lane))
        .map(|number| directory.reach(peer, purpose_of(lane), number, end))
        .collect()
}

fn purpose_of(lane: Lane) -> Purpose {
    match lane {
        Lane::Control => Purpose::Control,
        Lane::Data => Purpose::Data,
    }
}

fn lane_of(purpose: Purpose) -> Option<Lane> {
    match purpose {
        Purpose::Control => Some(Lane::Control),
        Purpose::Data => Some(Lane::Data),
        _ => None,
    }
}
