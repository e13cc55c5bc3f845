//! What can go wrong between ranks. Every variant about a peer names its rank and host.

use std::io;
use std::ops::RangeInclusive;

use hvd_types::Rank;

use crate::Failure;

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Some rank of the job is gone, so nothing can be completed any more.
    #[error(transparent)]
    PeerLost(#[from] Failure),
    /// A peer is connected but neither sent nor took a byte for too long.
    #[error(
        "rank {rank} on host `{host}` made no progress for {seconds} s; is it suspended, swapping \
         or cut off? (the limit is HOROVOD_GLOO_TIMEOUT_SECONDS)"
    )]
    Stalled {
        /// The peer that was waited for.
        rank: Rank,
        /// Its host.
        host: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A peer left something impossible in the memory it shares with this rank.
    #[error("rank {rank} on host `{host}` has corrupted the memory it shares with this rank")]
    Corrupted {
        /// The peer at the other end.
        rank: Rank,
        /// Its host.
        host: String,
    },
    /// The ranks of the job could not be connected with each other.
    #[error("cannot connect the ranks of the job: {0}")]
    Bootstrap(String),
    /// The limit of open files is too low for the connections of this rank.
    #[error("rank {rank} on host `{host}` cannot connect to the others: {}", shortage.remedy())]
    OpenFiles {
        /// This rank.
        rank: Rank,
        /// Its host.
        host: String,
        /// What does not fit.
        shortage: hvd_rendezvous::limits::Shortage,
    },
    /// All ports at which this rank may listen are taken.
    #[error(
        "rank {rank} on host `{host}` finds no free port in HOROVOD_PORT_RANGE={}-{}; each rank of \
         a host needs one: end what uses them, or give a larger range (`--port-range`)",
        ports.start(),
        ports.end()
    )]
    NoFreePort {
        /// This rank.
        rank: Rank,
        /// Its host.
        host: String,
        /// The ports that were tried.
        ports: RangeInclusive<u16>,
    },
    /// The system does not let this rank listen at a port of the range.
    #[error(
        "cannot listen at port {port}: {source}; give another HOROVOD_PORT_RANGE (`--port-range`)"
    )]
    PortRefused {
        /// The port.
        port: u16,
        /// The system's answer.
        source: io::Error,
    },
    /// The system does not offer an algorithm of congestion control to this process.
    #[error(
        "HOROVOD_TCP_CONGESTION={algorithm} is refused by the system: {source}; it offers those of \
         /proc/sys/net/ipv4/tcp_available_congestion_control, and without privileges only those of \
         tcp_allowed_congestion_control there"
    )]
    Congestion {
        /// What was asked for.
        algorithm: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The store or a handshake failed while the ranks were being connected.
    #[error(transparent)]
    Rendezvous(#[from] hvd_rendezvous::Error),
    /// The operating system refused something.
    #[error("{doing}: {source}{}", hvd_rendezvous::limits::explain(source))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    /// Wraps a system error with what was being done; for use with `map_err`.
    pub fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
