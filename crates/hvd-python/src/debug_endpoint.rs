//! This rank's snapshot for diagnosis, and on rank 0 the report about all ranks that
//! `horovodrun debug` prints.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hvd_config::WorkerConfig;
use hvd_engine::FlightLog;
use hvd_engine::snapshot::{RankReport, RankSnapshot};
use hvd_transport::{DebugResponder, Lifeline, SnapshotSource, StatusQuery};
use hvd_types::{Rank, Topology};

use crate::stack;

/// How long the ranks have to answer `horovodrun debug`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The engine's last operations, once there is an engine.
type SharedFlightLog = Arc<OnceLock<FlightLog>>;

/// How this rank answers status queries, and sends its own.
pub(crate) struct RankDebugEndpoint {
    pub(crate) log: SharedFlightLog,
    pub(crate) status_query: StatusQuery,
    /// On rank 0: answers the launcher.
    pub(crate) responder: Option<DebugResponder>,
}

impl RankDebugEndpoint {
    /// From now on this rank answers status queries.
    pub(crate) fn open(
        config: &WorkerConfig,
        lifeline: Option<&Lifeline>,
        topology: &Topology,
        wires: String,
    ) -> Self {
        let (rank, log) = (config.placement.rank, SharedFlightLog::default());
        let theirs = Arc::clone(&log);
        let source = SnapshotSource::new(move || snapshot(&theirs, &wires).encode());
        let status_query = StatusQuery::open(rank, lifeline, source);
        let responder = (rank == Rank::COORDINATOR).then(|| {
            let (status_query, topology) = (status_query.clone(), topology.clone());
            DebugResponder::open(config, move || reports(&status_query, &topology))
        });
        Self {
            log,
            status_query,
            responder,
        }
    }
}

fn snapshot(log: &SharedFlightLog, wires: &str) -> RankSnapshot {
    let (threads, unknown) = match stack::read() {
        Ok(threads) => (threads, String::new()),
        Err(reason) => (Vec::new(), reason.to_owned()),
    };
    RankSnapshot {
        process: std::process::id(),
        wires: wires.to_owned(),
        operations: log.get().map(FlightLog::operations).unwrap_or_default(),
        threads,
        unknown,
    }
}

/// The reports of all ranks, encoded.
fn reports(status_query: &StatusQuery, topology: &Topology) -> Vec<u8> {
    let ranks = topology.members();
    let mut answers = status_query.ask(ranks, ANSWER_TIMEOUT);
    let reports: Vec<RankReport> = ranks
        .iter()
        .map(|&rank| RankReport {
            rank,
            host: topology.host_name(rank).to_owned(),
            snapshot: answers
                .remove(&rank)
                .and_then(|answer| RankSnapshot::decode(&answer).ok()),
        })
        .collect();
    RankReport::encode_all(&reports)
}
