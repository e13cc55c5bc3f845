//! From a worker's settings to a connected [`Mesh`]: opens the job's store, chooses where to
//! listen, and joins.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hvd_config::{EncryptionChoice, KeySource, RendezvousConfig, TransportChoice, WorkerConfig};
use hvd_rendezvous::{
    Client, Error as StoreError, HangUp, JobKey, MemoryStore, Result as StoreResult, Store, blame,
    status_query,
};
use hvd_types::Rank;

use crate::mesh::join_until;
use crate::{
    Abort, Encryption, Error, FabricSource, Mesh, MeshOptions, RankAddresses, Result, TcpOptions,
    TransportKind, Waker,
};

/// How long the end of a failed rank may be held up by a launcher that does not answer.
const FINAL_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects this process with all other ranks of its job; `fabric` moves tensors between hosts, if
/// the job has one. It gives up when `abort` is raised, and the others then wait for its next attempt,
/// or learn that it failed.
pub fn connect(
    config: &WorkerConfig,
    fabric: Option<Arc<dyn FabricSource>>,
    abort: &Abort,
) -> Result<Mesh> {
    abort.check()?;
    let options = |key, network, fabric| MeshOptions {
        placement: config.placement.clone(),
        key,
        timeout: config.timeout,
        heartbeat_timeout: config.timeout,
        progress_timeout: 2 * config.timeout,
        kind: match config.transport {
            TransportChoice::Auto => TransportKind::Auto,
            TransportChoice::SharedMemory => TransportKind::SharedMemory,
            TransportChoice::Tcp => TransportKind::Tcp,
        },
        network,
        ports: config.port_range.clone(),
        tcp: TcpOptions {
            connections: config.tcp_connections,
            congestion: config.tcp_congestion.clone(),
            encryption: match config.encryption {
                EncryptionChoice::Control => Encryption::Control,
                EncryptionChoice::All => Encryption::All,
            },
        },
        fabric,
    };
    let loopback = RankAddresses::Address(IpAddr::from(Ipv4Addr::LOCALHOST));
    let Some(rendezvous) = &config.rendezvous else {
        let key = JobKey::generate()?;
        return join_until(
            &options(key, loopback, None),
            &mut MemoryStore::new(),
            abort,
        );
    };
    let (key, mut store) = open(rendezvous, config.timeout)?;
    status_query::arrive(&mut store, config.placement.rank)?;
    // Whatever ended the last time was no reason to end the job.
    blame::withdraw(&mut store, config.placement.rank)?;
    let network = match &config.host_addresses {
        _ if config.placement.is_single_host() => loopback,
        Some(routes) => RankAddresses::Routes(routes.clone()),
        None => RankAddresses::Address(store.local_ip()),
    };
    let mut store = Interruptible::new(store, rendezvous, abort)?;
    let mesh = join_until(&options(key, network, fabric), &mut store, abort);
    // The abort lives as long as the mesh, and the connection should not.
    store.hang_up.disarm();
    if let Err(Error::Rendezvous(StoreError::Ended { rank, .. })) = &mesh
        && let Err(error) = blame::accuse(&mut store, config.placement.rank, *rank)
    {
        tracing::info!("cannot tell the launcher that rank {rank} is to blame: {error}");
    }
    mesh
}

/// A connection to the store whose waits end when an abort is raised.
struct Interruptible<'a> {
    client: Client,
    rendezvous: &'a RendezvousConfig,
    hang_up: Switch,
}

/// What ends the connection, until it is disarmed.
#[derive(Clone)]
struct Switch(Arc<Mutex<Option<HangUp>>>);

impl Switch {
    fn disarm(&self) -> Option<HangUp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<'a> Interruptible<'a> {
    fn new(client: Client, rendezvous: &'a RendezvousConfig, abort: &Abort) -> Result<Self> {
        let hang_up = Switch(Arc::new(Mutex::new(Some(client.hang_up_handle()?))));
        let theirs = hang_up.clone();
        abort.on_raise(Waker::new(move || {
            if let Some(hang_up) = theirs.disarm() {
                hang_up.now();
            }
        }));
        Ok(Self {
            client,
            rendezvous,
            hang_up,
        })
    }
}

impl Store for Interruptible<'_> {
    fn put(&mut self, key: &str, value: &[u8]) -> StoreResult<()> {
        self.client.put(key, value)
    }

    fn get(&mut self, key: &str, timeout: Duration) -> StoreResult<Vec<u8>> {
        self.client.get(key, timeout)
    }

    fn exchange(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        timeout: Duration,
    ) -> StoreResult<Vec<Vec<u8>>> {
        self.client.exchange(scope, rank, size, value, timeout)
    }

    /// On a connection of its own: the other one may be the reason.
    fn leave(&mut self, scope: &str, rank: Rank, reason: &str) -> StoreResult<()> {
        let (_, mut store) = open(self.rendezvous, FINAL_REPORT_TIMEOUT)?;
        store.leave(scope, rank, reason)
    }

    fn number(&mut self) -> StoreResult<u64> {
        self.client.number()
    }
}

/// Tells the launcher, if there is one, that this rank cannot go on because of `culprit`.
pub fn accuse(config: &WorkerConfig, culprit: Rank) -> StoreResult<()> {
    let Some(rendezvous) = &config.rendezvous else {
        return Ok(());
    };
    let (_, mut store) = open(rendezvous, FINAL_REPORT_TIMEOUT)?;
    blame::accuse(&mut store, config.placement.rank, culprit)
}

/// Opens the job's key-value store.
pub fn open_store(config: &WorkerConfig, timeout: Duration) -> StoreResult<impl Store + use<>> {
    open_client(config, timeout)
}

pub(crate) fn open_client(config: &WorkerConfig, timeout: Duration) -> StoreResult<Client> {
    match &config.rendezvous {
        Some(rendezvous) => Ok(open(rendezvous, timeout)?.1),
        None => Err(StoreError::NoStore),
    }
}

fn open(rendezvous: &RendezvousConfig, timeout: Duration) -> StoreResult<(JobKey, Client)> {
    let key = match &rendezvous.key {
        KeySource::Text(text) => JobKey::from_hex(text)?,
        KeySource::File(path) => JobKey::from_file(path)?,
    };
    let client = Client::connect(&rendezvous.address, rendezvous.port, &key, timeout)?;
    Ok((key, client))
}
