//! Lanes that are connected when one of their two ranks first has something to send.
//!
//! The rank that needs a lane has a thread connect it and goes on; the other one's port takes it.
//! If both begin at once, [`super::claims`] says whose attempt counts. What comes of it is news for
//! the transport, whose wait it ends.
//!
//! - `LATE-1` a lane is handed over when all of its connections are there.
//! - `LATE-2` every attempt ends within [`MeshOptions::patience`](super::MeshOptions), and an
//!   attempt that failed is told with the rank, its host and its address.
//! - `LATE-3` the port stays open for as long as the transport is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use hvd_rendezvous::{Purpose, deadline};
use hvd_types::Rank;

use super::directory::Directory;
use super::incoming::{Desk, Incoming, News};
use crate::secure::SecureStream;
use crate::tcp::{Bundle, Operator};
use crate::{Lane, Result, StoreError, Waker};

/// How many connections are made at a time. The other ranks do the same, so more would only wait
/// in line.
const AT_A_TIME: usize = 16;

/// What connects lanes while the job runs.
#[derive(Debug)]
pub(super) struct Late {
    directory: Arc<Directory>,
    incoming: Incoming,
    dialers: Arc<Mutex<Dialers>>,
}

/// The lanes that are to be connected, and how many threads do it.
#[derive(Debug, Default)]
struct Dialers {
    waiting: VecDeque<(Rank, Lane)>,
    threads: usize,
}

impl Late {
    pub(super) fn new(directory: Arc<Directory>, incoming: Incoming) -> Self {
        let dialers = Arc::default();
        Self {
            directory,
            incoming,
            dialers,
        }
    }

    /// A lane all of whose connections have arrived, of those to `peer`.
    fn complete(&mut self, peer: Rank, purpose: Purpose) -> Option<(Lane, Vec<SecureStream>)> {
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
        let (directory, desk) = (Arc::clone(&self.directory), self.incoming.desk.clone());
        let dialers = Arc::clone(&self.dialers);
        thread::Builder::new()
            .name("hvd-dial".to_owned())
            .spawn(move || {
                while let Some((peer, lane)) = next(&dialers) {
                    let outcome = dial(&directory, peer, lane);
                    desk.tell(News::Dialed(peer, lane, outcome));
                }
            })
            .map_err(StoreError::thread("hvd-dial"))?;
        Ok(())
    }
}

impl Operator for Late {
    fn call(&mut self, peer: Rank, lane: Lane) {
        if !self.incoming.claims().begin(peer, purpose_of(lane)) {
            return;
        }
        let mut dialers = lock(&self.dialers);
        dialers.waiting.push_back((peer, lane));
        if dialers.threads == AT_A_TIME {
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
                let desk: &Desk = &self.incoming.desk;
                desk.tell(News::Dialed(peer, lane, Err(error)));
            }
        }
    }

    fn next(&mut self) -> Option<(Rank, Lane, Result<Bundle>)> {
        loop {
            match self.incoming.news.try_recv().ok()? {
                News::Aborted | News::Dialed(_, _, Ok(None)) => {}
                News::Dialed(peer, lane, outcome) => {
                    let streams = outcome.map(Option::unwrap_or_default);
                    let bundle = streams.and_then(|streams| self.directory.bundle(lane, streams));
                    return Some((peer, lane, bundle));
                }
                News::Arrived(key, stream) => {
                    self.incoming.arrived.entry(key).or_insert(stream);
                    if let Some((lane, streams)) = self.complete(key.0, key.1) {
                        return Some((key.0, lane, self.directory.bundle(lane, streams)));
                    }
                }
            }
        }
    }

    fn is_called(&self, peer: Rank, lane: Lane) -> bool {
        let claims = self.incoming.claims();
        claims.is_theirs(peer, purpose_of(lane))
    }

    fn on_news(&mut self, waker: Waker) {
        self.incoming.desk.on_news(waker);
        // What came before there was somebody to tell is told once more.
        for (key, stream) in std::mem::take(&mut self.incoming.arrived) {
            self.incoming.desk.tell(News::Arrived(key, stream));
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
fn dial(directory: &Directory, peer: Rank, lane: Lane) -> Result<Option<Vec<SecureStream>>> {
    let end = deadline::after(directory.options.patience);
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
