//! For tests only: whole meshes inside one process, over any wire, for ranks that are threads.

mod fabric;

use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::Duration;

use hvd_rendezvous::objects::ObjectSeal;
use hvd_rendezvous::{JobKey, MemoryStore};
use hvd_types::{Placement, Rank, Topology};

use crate::mesh::{TestOverrides, join_with};
use crate::shm::Capacities;
use crate::{Abort, Encryption, Mesh, MeshOptions, RankAddresses, TcpOptions, TransportKind, mem};
use fabric::MemoryFabrics;

/// What moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Queues in this process.
    Memory,
    /// A real segment of shared memory.
    SharedMemory,
    /// Real connections over the loopback interface.
    Tcp,
    /// The same, with tensors encrypted too.
    Encrypted,
    /// Two made-up hosts, each with half of the ranks: shared memory inside them, connections
    /// between them.
    Mixed,
    /// The same, with tensors between the hosts in a fabric.
    Fabric,
    /// A made-up host for every rank, with tensors in a fabric.
    FarFabric,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Memory,
        Self::SharedMemory,
        Self::Tcp,
        Self::Encrypted,
        Self::Mixed,
        Self::Fabric,
        Self::FarFabric,
    ];
}

/// A mesh to be built.
#[derive(Debug, Clone)]
pub struct Setup {
    wire: Wire,
    size: usize,
    progress_timeout: Duration,
    capacity: Option<usize>,
    connections: Option<u8>,
}

impl Setup {
    /// `size` ranks over `wire`, with a progress timeout of 30 seconds and buffers of the usual sizes.
    pub fn new(wire: Wire, size: usize) -> Self {
        Self {
            wire,
            size,
            progress_timeout: Duration::from_secs(30),
            capacity: None,
            connections: None,
        }
    }

    /// Sets how long a peer may make no progress.
    #[must_use]
    pub fn progress_timeout(mut self, progress_timeout: Duration) -> Self {
        self.progress_timeout = progress_timeout;
        self
    }

    /// Has every queue and ring hold `capacity` bytes, a power of two, and every slot eight times
    /// that, so that even short messages come in pieces, and has connections take turns after as
    /// many. They keep the kernel's buffers.
    #[must_use]
    pub fn tight(mut self, capacity: usize) -> Self {
        self.capacity = Some(capacity);
        self
    }

    /// Has so many connections carry the data lane between two ranks that have no common memory.
    #[must_use]
    pub fn connections(mut self, connections: u8) -> Self {
        self.connections = Some(connections);
        self
    }

    /// Builds the mesh and returns its ends, in order of rank.
    ///
    /// # Panics
    /// If a rank cannot join.
    pub fn build(&self) -> Vec<Mesh> {
        match self.wire {
            Wire::Memory => self.in_memory(),
            Wire::SharedMemory => self.joined(TransportKind::SharedMemory),
            Wire::Tcp | Wire::Encrypted => self.joined(TransportKind::Tcp),
            Wire::Mixed | Wire::Fabric | Wire::FarFabric => self.joined(TransportKind::Auto),
        }
    }

    #[expect(clippy::expect_used, reason = "this is how a test fails")]
    fn in_memory(&self) -> Vec<Mesh> {
        let topology = Topology::new(vec!["localhost"; self.size]);
        let key = JobKey::generate().expect("random bytes");
        mem::mesh_with(
            self.size,
            self.capacity.unwrap_or(64 * 1024),
            self.progress_timeout,
        )
        .into_iter()
        .map(|transport| Mesh {
            abort: transport.abort(),
            transport: Box::new(transport),
            lifeline: None,
            topology: topology.clone(),
            fallback_reason: None,
            wires: "memory".to_owned(),
            objects: ObjectSeal::new(&key, "test"),
        })
        .collect()
    }

    #[expect(clippy::expect_used, reason = "this is how a test fails")]
    fn joined(&self, kind: TransportKind) -> Vec<Mesh> {
        let key = JobKey::generate().expect("random bytes");
        let store = MemoryStore::new();
        let capacities = self.capacity.map(|capacity| Capacities {
            control: capacity,
            data: capacity,
            slot: (8 * capacity).max(128),
        });
        let fabrics = MemoryFabrics::new(self.capacity.unwrap_or(64 * 1024));
        let host_of = |rank: usize| match self.wire {
            Wire::Mixed | Wire::Fabric => Some(format!("half {}", 2 * rank / self.size)),
            Wire::FarFabric => Some(format!("host {rank}")),
            _ => None,
        };
        thread::scope(|scope| {
            let ranks: Vec<_> = (0..self.size)
                .map(|rank| {
                    let mut options = options(rank, self.size, &key, kind, self.progress_timeout);
                    options.tcp.connections = self.connections;
                    if self.wire == Wire::Encrypted {
                        options.tcp.encryption = Encryption::All;
                    }
                    if matches!(self.wire, Wire::Fabric | Wire::FarFabric) {
                        options.fabric = Some(fabrics.source(options.placement.rank));
                    }
                    if self.wire == Wire::FarFabric {
                        options.placement.hostname = format!("host-{rank}");
                    }
                    let mut store = store.clone();
                    let overrides = TestOverrides {
                        capacities,
                        host_identity: host_of(rank),
                        stripe: self.capacity,
                    };
                    thread::Builder::new()
                        .name(format!("hvd-test-join-{rank}"))
                        .spawn_scoped(scope, move || {
                            join_with(&options, &overrides, &mut store, &Abort::new())
                        })
                        .expect("a thread")
                })
                .collect();
            ranks
                .into_iter()
                .map(|rank| {
                    rank.join()
                        .expect("joining does not panic")
                        .expect("joining works")
                })
                .collect()
        })
    }
}

/// A mesh of `size` ranks over `wire`, in order of rank.
///
/// # Panics
/// If a rank cannot join.
pub fn mesh_of(wire: Wire, size: usize) -> Vec<Mesh> {
    Setup::new(wire, size).build()
}

/// What rank `rank` of `size` on this host would join with.
pub fn options(
    rank: usize,
    size: usize,
    key: &JobKey,
    kind: TransportKind,
    progress_timeout: Duration,
) -> MeshOptions {
    let number = Rank::from_index(rank).number();
    let size = Rank::from_index(size).number();
    let placement = Placement {
        rank: Rank::new(number),
        size,
        local_rank: number,
        local_size: size,
        ..Placement::alone()
    };
    MeshOptions {
        placement,
        key: key.clone(),
        timeout: Duration::from_secs(30),
        heartbeat_timeout: Duration::from_secs(30),
        progress_timeout,
        kind,
        network: RankAddresses::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ports: None,
        tcp: TcpOptions::default(),
        fabric: None,
    }
}
