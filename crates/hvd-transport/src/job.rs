//! From a worker's settings to a connected [`Mesh`]: opens the job's store, chooses where to
//! listen, and joins.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hvd_config::{EncryptionChoice, KeySource, Rendezvous, TransportChoice, WorkerConfig};
use hvd_rendezvous::{Client, Error as StoreError, JobKey, MemoryStore, Store, blame, inquiry};
use hvd_types::Rank;

use crate::{Encryption, Mesh, MeshOptions, Network, Result, TcpOptions, TransportKind, join};

/// How long the end of a failed rank may be held up by a launcher that does not answer.
const ACCUSATION_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects this process with all other ranks of its job. `generation` counts how often it has
/// done so before.
pub fn connect(config: &WorkerConfig, generation: u64) -> Result<Mesh> {
    let options = |key, network| MeshOptions {
        placement: config.placement.clone(),
        key,
        generation,
        timeout: config.timeout,
        silence: config.timeout,
        patience: 2 * config.timeout,
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
    };
    let loopback = Network::Address(IpAddr::from(Ipv4Addr::LOCALHOST));
    let Some(rendezvous) = &config.rendezvous else {
        let key = JobKey::generate()?;
        return join(&options(key, loopback), &mut MemoryStore::new());
    };
    let (key, mut store) = open(rendezvous, config.timeout)?;
    inquiry::arrive(&mut store, config.placement.rank)?;
    if generation > 0 {
        // Whatever ended the last time was no reason to end the job.
        blame::withdraw(&mut store, config.placement.rank)?;
    }
    let network = match &config.host_addresses {
        _ if config.placement.is_single_host() => loopback,
        Some(routes) => Network::Routes(routes.clone()),
        None => Network::Address(store.local_ip()),
    };
    join(&options(key, network), &mut store)
}

/// Tells the launcher, if there is one, that this rank cannot go on because of `culprit`.
pub fn accuse(config: &WorkerConfig, culprit: Rank) -> std::result::Result<(), StoreError> {
    let Some(rendezvous) = &config.rendezvous else {
        return Ok(());
    };
    let (_, mut store) = open(rendezvous, ACCUSATION_TIMEOUT)?;
    blame::accuse(&mut store, config.placement.rank, culprit)
}

/// Opens the job's key-value store.
pub fn open_store(
    config: &WorkerConfig,
    timeout: Duration,
) -> std::result::Result<impl Store + use<>, StoreError> {
    open_client(config, timeout)
}

pub(crate) fn open_client(
    config: &WorkerConfig,
    timeout: Duration,
) -> std::result::Result<Client, StoreError> {
    match &config.rendezvous {
        Some(rendezvous) => Ok(open(rendezvous, timeout)?.1),
        None => Err(StoreError::NoStore),
    }
}

fn open(
    rendezvous: &Rendezvous,
    timeout: Duration,
) -> std::result::Result<(JobKey, Client), StoreError> {
    let key = match &rendezvous.key {
        KeySource::Text(text) => JobKey::from_hex(text)?,
        KeySource::File(path) => JobKey::from_file(path)?,
    };
    let client = Client::connect(&rendezvous.address, rendezvous.port, &key, timeout)?;
    Ok((key, client))
}
