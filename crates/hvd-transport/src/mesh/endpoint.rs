//! One rank's endpoint, which it publishes through the store: six lines of text.

use std::net::SocketAddr;
use std::time::Instant;

use hvd_rendezvous::{Error as StoreError, Store, host_identity};

use super::fd_passing::MemoryOffer;
use super::{Encryption, MeshOptions};
use crate::{Error, Result};

/// Where and how one rank can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// Its host, as people call it.
    pub(super) hostname: String,
    /// Its host, so that no two have the same.
    pub(super) host_identity: String,
    /// Which wires it is set to use.
    kind: String,
    /// The unix socket at which it could hand out shared memory; empty if there is none.
    pub(super) socket: String,
    /// Which attempt to join this is; no other of the job has the same number.
    pub(super) attempt: u64,
}

/// The scope of the store in which the ranks of a job exchange their endpoints.
const SCOPE: &str = "init()";

impl Endpoint {
    pub(super) fn of(
        options: &MeshOptions,
        attempt: u64,
        address: SocketAddr,
        offer: Option<&Result<MemoryOffer>>,
    ) -> Self {
        let socket = offer
            .and_then(|offer| offer.as_ref().ok())
            .map(MemoryOffer::name);
        Self {
            address,
            hostname: options.placement.hostname.clone(),
            host_identity: own_identity(options),
            kind: wires(options),
            socket: socket.unwrap_or_default().to_owned(),
            attempt,
        }
    }

    /// Whether both ranks can share memory and are on what the launcher takes for one host.
    pub(super) fn shares_host_with(&self, other: &Self) -> bool {
        self.hostname == other.hostname && self.host_identity == other.host_identity
    }

    /// Whether both ranks run on one kernel, and so on the same cores. Containers of one machine
    /// are different hosts, but not different machines.
    pub(super) fn is_on_machine_of(&self, other: &Self) -> bool {
        let boot = |endpoint: &Self| endpoint.host_identity.split(' ').next().map(str::to_owned);
        boot(self) == boot(other)
    }

    /// An endpoint of which only the host matters.
    #[cfg(test)]
    pub(super) fn named(hostname: &str, host_identity: &str) -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 80)),
            hostname: hostname.to_owned(),
            host_identity: host_identity.to_owned(),
            kind: String::new(),
            socket: String::new(),
            attempt: 0,
        }
    }

    fn encode(&self) -> String {
        let Self {
            address,
            hostname,
            host_identity,
            kind,
            socket,
            attempt,
        } = self;
        format!("{address}\n{hostname}\n{host_identity}\n{kind}\n{socket}\n{attempt}")
    }

    fn decode(text: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(text)
            .ok()?
            .split('\n')
            .map(str::to_owned);
        let endpoint = Self {
            address: lines.next()?.parse().ok()?,
            hostname: lines.next()?,
            host_identity: lines.next()?,
            kind: lines.next()?,
            socket: lines.next()?,
            attempt: lines.next()?.parse().ok()?,
        };
        lines.next().is_none().then_some(endpoint)
    }
}

/// Which wires a rank is set to use, as one word for all that has to be equal.
fn wires(options: &MeshOptions) -> String {
    let connections = options.tcp.connections;
    let connections = connections.map(|connections| format!(" with {connections} connections"));
    let encryption = match options.tcp.encryption {
        Encryption::Control => "",
        Encryption::All => " with HOROVOD_ENCRYPT=all",
    };
    let fabric = match options.fabric {
        None => "",
        Some(_) => " with HOROVOD_CPU_OPERATIONS=mpi",
    };
    let kind = options.kind;
    let connections = connections.unwrap_or_default();
    format!("{kind:?}{connections}{encryption}{fabric}")
}

/// Gives this rank's endpoint to all others and returns those of all ranks.
pub(super) fn exchange(
    endpoint: &Endpoint,
    options: &MeshOptions,
    end: Instant,
    store: &mut dyn Store,
) -> Result<Vec<Endpoint>> {
    let (rank, size) = (options.placement.rank, options.placement.size as usize);
    let left = end.saturating_duration_since(Instant::now());
    let texts = store.exchange(SCOPE, rank, size, endpoint.encode().as_bytes(), left);
    let texts = texts.map_err(|error| match error {
        // Of all that was allowed, not what was left of it.
        StoreError::MissingRanks {
            scope,
            missing,
            size,
            ..
        } => StoreError::MissingRanks {
            scope,
            missing,
            size,
            seconds: options.timeout.as_secs(),
        },
        other => other,
    })?;
    let endpoints: Option<Vec<Endpoint>> =
        texts.iter().map(|text| Endpoint::decode(text)).collect();
    let endpoints =
        endpoints.ok_or_else(|| Error::Bootstrap("a rank's endpoint is damaged".to_owned()))?;
    if let Some(other) = endpoints
        .iter()
        .position(|other| other.kind != endpoint.kind)
    {
        let (ours, theirs, host) = (
            &endpoint.kind,
            &endpoints[other].kind,
            &endpoints[other].hostname,
        );
        return Err(Error::Bootstrap(format!(
            "rank {rank} was told to use transport `{ours}`, rank {other} on `{host}` `{theirs}`"
        )));
    }
    Ok(endpoints)
}

/// Equal for two ranks only if they can share memory; unknown hosts are all different.
fn own_identity(options: &MeshOptions) -> String {
    host_identity().unwrap_or_else(|| format!("unknown {}", options.placement.rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_come_back_and_damaged_ones_do_not() {
        let endpoint = Endpoint {
            address: SocketAddr::from(([127, 0, 0, 1], 80)),
            hostname: "node-1".into(),
            host_identity: "boot node-1".into(),
            kind: "Auto".into(),
            socket: "hvd-ab".into(),
            attempt: 12,
        };
        let text = endpoint.encode();
        assert_eq!(Endpoint::decode(text.as_bytes()), Some(endpoint));
        for damaged in [
            "",
            "\n\n\n\n\n",
            &text[4..],
            &format!("{text}\n"),
            "127.0.0.1:1\nhost",
        ] {
            assert_eq!(Endpoint::decode(damaged.as_bytes()), None, "{damaged:?}");
        }
        assert_eq!(Endpoint::decode(b"\xff"), None);
    }
}
