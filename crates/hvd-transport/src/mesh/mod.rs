//! How the ranks of a job come to be connected with each other.
//!
//! 1. Every rank opens a port, and a unix socket where it could hand out shared memory.
//! 2. All exchange their [`Endpoint`]s through the store: where they listen, which host they are
//!    on.
//! 3. On every host with several ranks the first hands memory to the others, and all exchange
//!    whether that worked. If it did for every rank of a host, it is used there.
//! 4. Every rank connects its lifeline to rank 0.
//!
//! Lanes between ranks that share no memory are connected when they are first needed
//! ([`lazy_connect`]), so that a rank has connections to those it works with and not to all.
//!
//! - `MESH-1` a job can be joined again and again, also by ranks that failed to before. The store
//!   numbers the attempts of all ranks; an attempt meets those whose endpoints come with its own in
//!   step 2, and that meeting is known by rank 0's number.
//! - `MESH-1b` a rank that gives up counts no more: before the meeting the others go on waiting for
//!   its next attempt; if it gives up in step 3, they go back to step 2; afterwards it is a failure
//!   that their lifelines report.
//! - `MESH-2` every step ends by [`MeshOptions::timeout`], and says whom it waited for.
//! - `MESH-3` each incoming connection is authenticated by a thread of its own, so a stranger at
//!   the port delays no rank (see [`hvd_rendezvous::accept`]).

mod directory;
mod endpoint;
mod fd_passing;
mod hello;
mod incoming;
mod lazy_connect;
mod lifelines;
mod memory;
mod network;
mod tie_break;
mod wires;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_rendezvous::objects::ObjectSeal;
use hvd_rendezvous::{Error as StoreError, JobKey, Store, deadline, limits};
use hvd_types::{Placement, Rank, Topology};

use crate::fabric::OverFabric;
use crate::mixed::{HostMemory, Mixed};
use crate::os::event::Flag;
use crate::rank_context::RankContext;
use crate::shm::{Capacities, SharedMemory};
use crate::spin;
use crate::tcp::{Links, STRIPE, Tcp};
use crate::{Abort, Error, FabricSource, Failure, Lifeline, Result, Transport, mem};
use directory::PeerDirectory;
use endpoint::Endpoint;
use fd_passing::MemoryOffer;
use incoming::Incoming;
use lazy_connect::LazyConnector;

/// Which wires a job may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransportKind {
    /// Shared memory between ranks of one host, if it works there, else TCP.
    #[default]
    Auto,
    /// Shared memory between all ranks, or an error.
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
    /// How long joining may take in all.
    pub timeout: Duration,
    /// How long a rank may send no heartbeat.
    pub heartbeat_timeout: Duration,
    /// How long a peer may make no progress in the middle of an operation. Longer than
    /// `heartbeat_timeout`: a rank that is stopped holds up its neighbours, and those theirs, and
    /// none of them is to blame.
    pub progress_timeout: Duration,
    /// Which wires to use; all ranks have to want the same.
    pub kind: TransportKind,
    /// Where to listen, and where the others are.
    pub network: RankAddresses,
    /// The ports at which to listen; `None` for any.
    pub ports: Option<RangeInclusive<u16>>,
    /// How connections are used; all ranks have to want the same.
    pub tcp: TcpOptions,
    /// What moves tensors between hosts instead of connections, if anything; all ranks have to want
    /// the same.
    pub fabric: Option<Arc<dyn FabricSource>>,
}

/// How connections between ranks are used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// How many carry tensors between two ranks; `None` for what suits the path.
    pub connections: Option<u8>,
    /// The algorithm of congestion control; `None` for one that does not pace a fast network.
    pub congestion: Option<String>,
    /// What of them is encrypted.
    pub encryption: Encryption,
}

/// What connections between ranks are encrypted and protected from changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encryption {
    /// Control messages and lifelines; tensors travel as they are.
    #[default]
    Control,
    /// Tensors too.
    All,
}

/// How ranks reach each other.
#[derive(Debug, Clone)]
pub enum RankAddresses {
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
    /// Which ranks share a host.
    pub topology: Topology,
    /// Why the wire is not what was hoped for, for the log.
    pub fallback_reason: Option<String>,
    /// What carries this rank's bytes, and why, for people.
    pub wires: String,
    /// What signs and checks objects that ranks unpickle.
    pub objects: ObjectSeal,
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("rank", &self.transport.rank())
            .field("transport", &self.transport.kind())
            .field("topology", &self.topology)
            .field("fallback_reason", &self.fallback_reason)
            .finish_non_exhaustive()
    }
}

/// Makes this rank one of its job; returns when it would learn of the death of any other.
pub fn join(options: &MeshOptions, store: &mut dyn Store) -> Result<Mesh> {
    join_until(options, store, &Abort::new())
}

/// As [`join`], until `abort` is raised: then this rank gives up, and the others learn that it did.
pub fn join_until(options: &MeshOptions, store: &mut dyn Store, abort: &Abort) -> Result<Mesh> {
    join_with(options, &TestOverrides::default(), store, abort)
}

/// What tests override.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestOverrides {
    /// Sizes of the rings of shared memory.
    pub(crate) capacities: Option<Capacities>,
    /// Which host this is.
    pub(crate) host_identity: Option<String>,
    /// Bytes that go over one connection before the next is used.
    pub(crate) stripe: Option<usize>,
}

/// As [`join_until`], with overrides for tests.
pub(crate) fn join_with(
    options: &MeshOptions,
    overrides: &TestOverrides,
    store: &mut dyn Store,
    abort: &Abort,
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
    check_open_files(options)?;
    let end = deadline::after(options.timeout);
    loop {
        match attempt(options, overrides, store, abort, end) {
            // It may try again, and so do we (`MESH-1b`). The time ends this in any case.
            Err(Error::Rendezvous(StoreError::GaveUp { rank, reason }))
                if abort.cause().is_none() =>
            {
                tracing::warn!("rank {rank} {reason}; waiting for its next init()");
            }
            outcome => return outcome,
        }
    }
}

/// Steps 1 to 4, once.
fn attempt(
    options: &MeshOptions,
    overrides: &TestOverrides,
    store: &mut dyn Store,
    abort: &Abort,
    end: Instant,
) -> Result<Mesh> {
    abort.check()?;
    let number = store.number()?;
    let incoming = Incoming::listen(options, number, abort)?;
    // A failure is reported to the others in step 3, and only if they would have used the memory.
    let offer = (options.kind != TransportKind::Tcp).then(MemoryOffer::open);
    let mut endpoint = Endpoint::of(options, number, incoming.address(), offer.as_ref());
    if let Some(identity) = &overrides.host_identity {
        endpoint.host_identity.clone_from(identity);
    }
    let endpoints =
        endpoint::exchange(&endpoint, options, end, store).map_err(|error| abort.explain(error))?;
    let directory = Arc::new(PeerDirectory {
        options: options.clone(),
        endpoints,
        stripe: overrides.stripe.unwrap_or(STRIPE),
        abort: abort.clone(),
    });
    Bootstrap {
        directory,
        end,
        capacities: overrides.capacities,
    }
    .connect(offer, incoming, store)
}

/// Raises the limit of open files and finds out whether the connections fit that every job needs:
/// better here than when some have been made and others wait for the rest.
fn check_open_files(options: &MeshOptions) -> Result<()> {
    const OTHERS: u64 = 24;
    limits::raise_open_files();
    let placement = &options.placement;
    let peers = u64::from(placement.size - 1);
    let is_shared = placement.is_single_host() && options.kind != TransportKind::Tcp;
    let lanes = if is_shared { 0 } else { peers };
    let connections = match placement.rank {
        Rank::COORDINATOR => peers + lanes,
        _ => 0,
    };
    limits::check_open_files(OTHERS + connections).map_err(|shortage| Error::OpenFiles {
        rank: placement.rank,
        host: placement.hostname.clone(),
        shortage,
    })
}

/// A job of one rank needs no wires.
fn alone(options: &MeshOptions) -> Result<Mesh> {
    let mut ends = mem::mesh_with(1, 1, options.progress_timeout);
    let transport = ends
        .pop()
        .ok_or_else(|| Error::Bootstrap("no rank".to_owned()))?;
    let topology = Topology::new([options.placement.hostname.as_str()]);
    let abort = transport.abort();
    Ok(Mesh {
        transport: Box::new(transport),
        abort,
        lifeline: None,
        topology,
        fallback_reason: None,
        wires: "none, in a job of one rank".to_owned(),
        objects: objects(options, &[]),
    })
}

/// For the session of the ranks with these endpoints: no other has the same numbers of attempts.
fn objects(options: &MeshOptions, endpoints: &[Endpoint]) -> ObjectSeal {
    let attempts: Vec<String> = endpoints
        .iter()
        .map(|endpoint| endpoint.attempt.to_string())
        .collect();
    ObjectSeal::new(&options.key, &attempts.join(" "))
}

/// Steps 3 and 4: the ranks know each other's endpoints.
struct Bootstrap {
    directory: Arc<PeerDirectory>,
    end: Instant,
    /// Sizes of rings, if not the usual ones.
    capacities: Option<Capacities>,
}

impl Bootstrap {
    fn rank(&self) -> Rank {
        self.directory.rank()
    }

    fn options(&self) -> &MeshOptions {
        &self.directory.options
    }

    /// By rank.
    fn endpoints(&self) -> &[Endpoint] {
        &self.directory.endpoints
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Whether the ranks of this machine, in whatever containers, are not more than its cores.
    fn has_cores(&self) -> bool {
        let own = &self.endpoints()[self.rank().index()];
        let ranks = self
            .endpoints()
            .iter()
            .filter(|endpoint| endpoint.is_on_machine_of(own));
        spin::has_core_for_each(ranks.count())
    }

    fn topology(&self) -> Topology {
        let endpoints = self.endpoints().iter();
        Topology::new(endpoints.map(|endpoint| endpoint.hostname.as_str()))
    }

    /// Steps 3 and 4.
    fn connect(
        self,
        offer: Option<Result<MemoryOffer>>,
        mut incoming: Incoming,
        store: &mut dyn Store,
    ) -> Result<Mesh> {
        let (memory, fallback_reason) = match self.share_memory(offer, store) {
            Ok(shared) => shared,
            Err(error) => {
                let error = self.directory.abort.explain(error);
                self.leave_memory(&error, store);
                return Err(error);
            }
        };
        let lifeline = match self.connect_lifelines(&mut incoming) {
            Ok(lifeline) => lifeline,
            Err(error) => {
                self.report_to_coordinator(&error);
                return Err(error);
            }
        };
        let topology = self.topology();
        match self.connect_transport(topology.clone(), memory.as_ref(), incoming) {
            Ok(transport) => Ok(Mesh {
                transport,
                abort: self.directory.abort.clone(),
                lifeline: Some(lifeline),
                topology,
                wires: self.wires(memory.is_some(), fallback_reason.as_deref()),
                fallback_reason,
                objects: objects(self.options(), self.endpoints()),
            }),
            Err(error) => {
                // The others would wait for this rank in vain.
                lifeline.report(self.failure(&error));
                Err(error)
            }
        }
    }

    /// What the others learn of this rank's attempt.
    fn failure(&self, error: &Error) -> Failure {
        let (rank, host) = (self.rank(), self.options().placement.hostname.clone());
        match error {
            Error::PeerLost(failure) if failure.rank == rank => failure.clone(),
            _ => Failure {
                rank,
                host,
                reason: format!("could not join the job: {error}"),
            },
        }
    }

    fn connect_transport(
        &self,
        topology: Topology,
        memory: Option<&HostMemory>,
        incoming: Incoming,
    ) -> Result<Box<dyn Transport>> {
        let context = RankContext {
            rank: self.rank(),
            topology,
            progress_timeout: self.options().progress_timeout,
            abort: self.directory.abort.clone(),
            has_cores: self.has_cores(),
        };
        if let Some(memory) = memory
            && memory.flags.is_empty()
        {
            return Ok(Box::new(SharedMemory::new(&memory.segment, context)?));
        }
        let near = memory.map_or(&[][..], |memory| &memory.ranks);
        let is_far = |rank: &Rank| *rank != self.rank() && near.binary_search(rank).is_err();
        let ranks = (0..self.endpoints().len()).map(Rank::from_index);
        let far: Vec<Rank> = ranks.filter(is_far).collect();
        let connector = LazyConnector::new(Arc::clone(&self.directory), incoming);
        let links = Links::new(self.endpoints().len(), &far, Box::new(connector));
        if let Some(memory) = memory {
            let mixed = Mixed::new(context.clone(), memory, links)?;
            return self.over_fabric(context, mixed, &far);
        }
        let flag = Flag::new().map_err(Error::io("creating an event"))?;
        let tcp = Tcp::new(context.clone(), links, Arc::new(flag));
        self.over_fabric(context, tcp, &far)
    }

    /// Has the data of the ranks in `far` go through the fabric, if the job has one.
    fn over_fabric(
        &self,
        context: RankContext,
        inner: impl Transport + 'static,
        far: &[Rank],
    ) -> Result<Box<dyn Transport>> {
        let Some(source) = &self.options().fabric else {
            return Ok(Box::new(inner));
        };
        // Numbers of attempts are never used twice, and all ranks know rank 0's (`MESH-1`).
        let meeting = self.endpoints()[Rank::COORDINATOR.index()].attempt;
        let fabric = source.open(meeting).map_err(|error| {
            let (rank, host) = (self.rank(), &self.options().placement.hostname);
            Error::Bootstrap(format!(
                "rank {rank} on host `{host}` cannot use MPI: {error}"
            ))
        })?;
        Ok(Box::new(OverFabric::new(context, inner, fabric, far)))
    }
}
