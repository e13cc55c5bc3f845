//! What this rank says when it is asked how it stands, and what rank 0 asks the others.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hvd_config::WorkerConfig;
use hvd_engine::FlightLog;
use hvd_engine::testimony::{Statement, Testimony};
use hvd_transport::{Desk, Inquiry, Lifeline, Witness};
use hvd_types::{Rank, Topology};

use crate::stack;

/// How long the ranks have to answer `horovodrun debug`.
const PATIENCE: Duration = Duration::from_secs(2);

/// The engine's last operations, once there is an engine.
type Log = Arc<OnceLock<FlightLog>>;

/// How this rank is asked, and asks.
pub(crate) struct Ear {
    pub(crate) log: Log,
    pub(crate) inquiry: Inquiry,
    /// On rank 0: where the launcher asks.
    pub(crate) desk: Option<Desk>,
}

impl Ear {
    /// From now on this rank answers.
    pub(crate) fn open(
        config: &WorkerConfig,
        lifeline: Option<&Lifeline>,
        topology: &Topology,
    ) -> Self {
        let (rank, log) = (config.placement.rank, Log::default());
        let theirs = Arc::clone(&log);
        let witness = Witness::new(move || testimony(&theirs).encode());
        let inquiry = Inquiry::open(rank, lifeline, witness);
        let desk = (rank == Rank::COORDINATOR).then(|| {
            let (inquiry, topology) = (inquiry.clone(), topology.clone());
            Desk::open(config, move || statements(&inquiry, &topology))
        });
        Self { log, inquiry, desk }
    }
}

fn testimony(log: &Log) -> Testimony {
    let (threads, unknown) = match stack::read() {
        Ok(threads) => (threads, String::new()),
        Err(reason) => (Vec::new(), reason.to_owned()),
    };
    Testimony {
        process: std::process::id(),
        operations: log.get().map(FlightLog::notes).unwrap_or_default(),
        threads,
        unknown,
    }
}

/// What all ranks say, as bytes.
fn statements(inquiry: &Inquiry, topology: &Topology) -> Vec<u8> {
    let ranks = topology.members();
    let mut answers = inquiry.ask(ranks, PATIENCE);
    let statements: Vec<Statement> = ranks
        .iter()
        .map(|&rank| Statement {
            rank,
            host: topology.host_name(rank).to_owned(),
            testimony: answers
                .remove(&rank)
                .and_then(|said| Testimony::decode(&said).ok()),
        })
        .collect();
    Statement::encode_all(&statements)
}
