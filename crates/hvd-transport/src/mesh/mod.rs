//! How the ranks of a job come to be connected with each other.
//!
//! 1. Every rank opens a port, and rank 0 prepares shared memory.
//! 2. All exchange their [`Card`]s through the store: where they listen, which host they are on.
//! 3. If all are on one host, rank 0 hands the memory to the others, and all exchange whether
//!    that worked. If it did for everybody, it is used.
//! 4. Every rank connects its lifeline to rank 0.
//! 5. Without shared memory, each rank connects both lanes to every lower rank.
//!
//! - `MESH-1` the names in the store carry the generation, so a job can be initialised again.
//! - `MESH-2` every step ends by [`MeshOptions::timeout`], and says whom it waited for.
//! - `MESH-3` each incoming connection is authenticated by a thread of its own, so a stranger at
//!   the port delays nobody (see [`hvd_rendezvous::accept`]).

mod card;
mod handover;
mod hello;
mod incoming;
mod lines;
mod network;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use hvd_rendezvous::{JobKey, Store, deadline};
use hvd_types::{Placement, Rank};

use crate::shm::{Capacities, Segment, SharedMemory};
use crate::{Abort, Error, Failure, Lifeline, Result, Transport, mem};
use card::Card;
use handover::Offer;
use incoming::Incoming;

/// Which wires a job may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransportKind {
    /// Shared memory if all ranks are on one host and it works, else TCP.
    #[default]
    Auto,
    /// Shared memory, or an error.
    SharedMemory,
    /// TCP.
    Tcp,
}

/// What a rank needs to know to find the others.
#[derive(Debug, Clone)]
pub struct MeshOptions {
    /// Who this process is.
    pub placement: Placement,
    /// The job's secret.
    pub key: JobKey,
    /// How often this job was initialised before; all ranks count alike.
    pub generation: u64,
    /// How long joining may take in all.
    pub timeout: Duration,
    /// How long a rank may give no sign of life.
    pub silence: Duration,
    /// How long a peer may make no progress in the middle of an operation. Longer than `silence`:
    /// a rank that is stopped holds up its neighbours, and those theirs, and none of them is to
    /// blame.
    pub patience: Duration,
    /// Which wires to use; all ranks have to want the same.
    pub kind: TransportKind,
    /// Where to listen, and where the others are.
    pub network: Network,
    /// The ports at which to listen; `None` for any.
    pub ports: Option<RangeInclusive<u16>>,
}

/// How ranks reach each other.
#[derive(Debug, Clone)]
pub enum Network {
    /// This rank listens at this address of its host, which all others reach.
    Address(IpAddr),
    /// This rank listens at all addresses of its host. It reaches each other host, by name, at the
    /// address given here.
    Routes(BTreeMap<String, IpAddr>),
}

/// One rank's place among the connected ranks of a job.
///
/// Dropping it leaves in peace. Taken apart, the lifeline should be the last to go, so that deaths
/// are noticed while the transport is closed.
pub struct Mesh {
    /// Bytes to and from the other ranks.
    pub transport: Box<dyn Transport>,
    /// Raised when any rank fails.
    pub abort: Abort,
    /// What raises it; none in a job of one rank.
    pub lifeline: Option<Lifeline>,
    /// The host of every rank.
    pub hosts: Vec<String>,
    /// Why the wire is not what was hoped for, for the log.
    pub note: Option<String>,
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("rank", &self.transport.rank())
            .field("transport", &self.transport.kind())
            .field("hosts", &self.hosts)
            .field("note", &self.note)
            .finish_non_exhaustive()
    }
}

/// Connects this rank with all others of its job; returns when they are all connected with it.
pub fn join(options: &MeshOptions, store: &mut dyn Store) -> Result<Mesh> {
    join_with(
        options,
        Capacities::for_ranks(options.placement.size as usize),
        store,
    )
}

/// As [`join`], with rings of the given sizes if it comes to shared memory.
pub(crate) fn join_with(
    options: &MeshOptions,
    capacities: Capacities,
    store: &mut dyn Store,
) -> Result<Mesh> {
    let placement = &options.placement;
    if placement.rank.number() >= placement.size {
        let (rank, size) = (placement.rank, placement.size);
        return Err(Error::Bootstrap(format!(
            "there is no rank {rank} in a job of {size}"
        )));
    }
    if placement.size == 1 {
        return alone(options);
    }
    let abort = Abort::new();
    let mut incoming = Incoming::listen(options, &abort)?;
    // A failure is told to the others in step 3, and only if they would have used the memory.
    let offer = (placement.rank == Rank::COORDINATOR && options.kind != TransportKind::Tcp)
        .then(|| Offer::prepare(placement.size as usize, capacities, &options.key));
    let end = deadline::after(options.timeout);
    let card = Card::of(options, incoming.address(), offer.as_ref());
    let cards = card::exchange(&card, options, store)?;
    Meeting {
        options,
        end,
        abort,
        cards,
    }
    .connect(offer, &mut incoming, store)
}

/// A job of one rank needs no wires.
fn alone(options: &MeshOptions) -> Result<Mesh> {
    let mut ends = mem::mesh_with(1, 1, options.patience);
    let transport = ends
        .pop()
        .ok_or_else(|| Error::Bootstrap("no rank".to_owned()))?;
    let hosts = vec![options.placement.hostname.clone()];
    let abort = transport.abort();
    Ok(Mesh {
        transport: Box::new(transport),
        abort,
        lifeline: None,
        hosts,
        note: None,
    })
}

/// The ranks once they know of each other.
struct Meeting<'a> {
    options: &'a MeshOptions,
    end: Instant,
    abort: Abort,
    /// By rank.
    cards: Vec<Card>,
}

impl Meeting<'_> {
    fn rank(&self) -> Rank {
        self.options.placement.rank
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    fn hosts(&self) -> Vec<String> {
        self.cards
            .iter()
            .map(|card| card.hostname.clone())
            .collect()
    }

    /// Steps 3 to 5.
    fn connect(
        self,
        offer: Option<Result<Offer>>,
        incoming: &mut Incoming,
        store: &mut dyn Store,
    ) -> Result<Mesh> {
        let (segment, note) = self.share_memory(offer, store)?;
        let lifeline = self.connect_lifelines(incoming)?;
        match self.connect_transport(segment.as_ref(), incoming) {
            Ok(transport) => {
                let hosts = self.hosts();
                Ok(Mesh {
                    transport,
                    abort: self.abort,
                    lifeline: Some(lifeline),
                    hosts,
                    note,
                })
            }
            Err(error) => {
                // The others would wait for this rank in vain.
                let host = self.options.placement.hostname.clone();
                let reason = format!("could not join the job: {error}");
                lifeline.report(Failure {
                    rank: self.rank(),
                    host,
                    reason,
                });
                Err(error)
            }
        }
    }

    /// Step 3: the memory if all ranks have it, else a note why not.
    fn share_memory(
        &self,
        offer: Option<Result<Offer>>,
        store: &mut dyn Store,
    ) -> Result<(Option<Segment>, Option<String>)> {
        if self.options.kind == TransportKind::Tcp {
            return Ok((None, None));
        }
        let trouble = match self.apart() {
            Some(trouble) => trouble,
            None => match self.hand_over(offer, store)? {
                Ok(segment) => return Ok((Some(segment), None)),
                Err(trouble) => trouble,
            },
        };
        match self.options.kind {
            TransportKind::SharedMemory => Err(Error::Bootstrap(trouble)),
            _ => Ok((None, Some(format!("using TCP: {trouble}")))),
        }
    }

    /// Why the ranks cannot share memory at all.
    fn apart(&self) -> Option<String> {
        let first = &self.cards[0];
        let other = self
            .cards
            .iter()
            .position(|card| card.host_identity != first.host_identity)?;
        let (one, two) = (&first.hostname, &self.cards[other].hostname);
        Some(format!(
            "rank 0 on `{one}` and rank {other} on `{two}` share no memory"
        ))
    }

    /// Gets the memory, and hears from all ranks whether they did; the outcome is the same on all.
    fn hand_over(
        &self,
        offer: Option<Result<Offer>>,
        store: &mut dyn Store,
    ) -> Result<std::result::Result<Segment, String>> {
        let size = self.cards.len();
        // The offer stands until everybody has reported.
        let (segment, offer) = match offer {
            Some(Ok(offer)) => (offer.attach(size), Some(offer)),
            Some(Err(error)) => (Err(error), None),
            None => {
                let socket = &self.cards[0].socket;
                (
                    handover::fetch(socket, size, &self.options.key, self.end),
                    None,
                )
            }
        };
        let report = segment
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default();
        let scope = format!("mesh/{}/memory", self.options.generation);
        let reports = store.exchange(&scope, self.rank(), size, report.as_bytes(), self.left())?;
        drop(offer);
        let trouble = reports
            .iter()
            .position(|report| !report.is_empty())
            .map(|rank| {
                format!(
                    "rank {rank} has no shared memory: {}",
                    String::from_utf8_lossy(&reports[rank])
                )
            });
        Ok(match (segment, trouble) {
            (Ok(segment), None) => Ok(segment),
            (_, trouble) => Err(trouble.unwrap_or(report)),
        })
    }

    fn connect_transport(
        &self,
        segment: Option<&Segment>,
        incoming: &mut Incoming,
    ) -> Result<Box<dyn Transport>> {
        let (abort, patience) = (self.abort.clone(), self.options.patience);
        Ok(match segment {
            Some(segment) => {
                let hosts = self.hosts();
                Box::new(SharedMemory::new(
                    segment,
                    self.rank(),
                    hosts,
                    patience,
                    abort,
                )?)
            }
            None => Box::new(self.connect_lanes(incoming)?),
        })
    }
}
