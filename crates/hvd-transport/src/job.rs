//! From a worker's settings to a connected [`Mesh`]: opens the job's store, chooses where to
//! listen, and joins.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hvd_config::{Rendezvous, TransportChoice, WorkerConfig};
use hvd_rendezvous::{Client, Error as StoreError, JobKey, MemoryStore, Store};

use crate::{Mesh, MeshOptions, Result, TransportKind, join};

/// Connects this process with all other ranks of its job. `generation` counts how often it has
/// done so before.
pub fn connect(config: &WorkerConfig, generation: u64) -> Result<Mesh> {
    let options = |key, listen| MeshOptions {
        placement: config.placement.clone(),
        key,
        generation,
        timeout: config.timeout,
        patience: config.timeout,
        kind: match config.transport {
            TransportChoice::Auto => TransportKind::Auto,
            TransportChoice::SharedMemory => TransportKind::SharedMemory,
            TransportChoice::Tcp => TransportKind::Tcp,
        },
        listen,
    };
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let Some(rendezvous) = &config.rendezvous else {
        let key = JobKey::generate()?;
        return join(&options(key, loopback), &mut MemoryStore::new());
    };
    let (key, mut store) = open(rendezvous, config.timeout)?;
    let single_host = config.placement.is_single_host();
    let listen = if single_host {
        loopback
    } else {
        store.local_ip()
    };
    join(&options(key, listen), &mut store)
}

/// Opens the job's key-value store.
pub fn open_store(
    config: &WorkerConfig,
    timeout: Duration,
) -> std::result::Result<impl Store + use<>, StoreError> {
    match &config.rendezvous {
        Some(rendezvous) => Ok(open(rendezvous, timeout)?.1),
        None => Err(StoreError::NoStore),
    }
}

fn open(
    rendezvous: &Rendezvous,
    timeout: Duration,
) -> std::result::Result<(JobKey, Client), StoreError> {
    let key = JobKey::from_hex(&rendezvous.key)?;
    let client = Client::connect(&rendezvous.address, rendezvous.port, &key, timeout)?;
    Ok((key, client))
}
