//! Many ranks in one process: the real negotiation (hub, coordinators, relays, response caches) and
//! the real ready barrier, over a simulated network under a simulated clock, to see what they cost
//! as the number of ranks grows.
//!
//! Everything that decides is the code that runs in a job (`hvd_engine::negotiation`); only the
//! wires, the clock and the bytes of tensors are missing. `cargo run --release -p hvd-simulate
//! --example many_ranks` prints the table of `docs/benchmarks/many_ranks.md`. No user's program
//! contains this crate.
//!
//! Must not know: the engine's threads and queues, transports, or anything that executes an
//! operation.

#![forbid(unsafe_code)]

mod network;
mod scheduled;

use std::time::Duration;

use hvd_engine::Result;
use hvd_types::{DType, Device, OpKind, Rank, ReduceOp, Shape, Topology};
use hvd_wire::Request;

use network::SimulatedNetwork;

pub use scheduled::ready_barrier;

/// How ranks reach the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wiring {
    /// Each sends its requests to rank 0.
    Star,
    /// Through relays, each of which merges the requests of the ranks below it.
    Tree,
}

/// What a message costs.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// On the way inside a host.
    pub local_latency: Duration,
    /// On the way between hosts.
    pub remote_latency: Duration,
    /// Of a rank's time, for each message that it sends or receives.
    pub per_message: Duration,
    /// Of a rank's time, for each KiB that it sends or receives.
    pub per_kibibyte: Duration,
}

impl Default for Costs {
    /// A cluster with ordinary Ethernet: 25 us between hosts, 1 us through shared memory, 2 us for
    /// a system call and what follows it, 1 us for a KiB that is encoded or decoded.
    fn default() -> Self {
        Self {
            local_latency: Duration::from_micros(1),
            remote_latency: Duration::from_micros(25),
            per_message: Duration::from_micros(2),
            per_kibibyte: Duration::from_micros(1),
        }
    }
}

/// The job that is simulated.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedJob {
    /// How many ranks.
    pub ranks: usize,
    /// How many of them share a host.
    pub per_host: usize,
    /// Tensors in a step.
    pub tensors: usize,
    /// In how many bursts a rank submits them.
    pub bursts: usize,
    /// From one burst to the next.
    pub pause: Duration,
    /// By how much ranks are apart, at most.
    pub skew: Duration,
    /// How they are connected.
    pub wiring: Wiring,
    /// What it costs.
    pub costs: Costs,
}

impl SimulatedJob {
    /// A step of ResNet-50 on hosts of eight ranks.
    pub fn new(ranks: usize, wiring: Wiring) -> Self {
        Self {
            ranks,
            per_host: 8,
            tensors: 161,
            bursts: 4,
            pause: Duration::from_millis(5),
            skew: Duration::from_micros(200),
            wiring,
            costs: Costs::default(),
        }
    }

    fn topology(&self) -> Topology {
        let host = |rank| format!("host-{}", rank / self.per_host.max(1));
        Topology::new((0..self.ranks).map(host))
    }

    /// The tensors of a burst.
    fn burst(&self, number: usize) -> Vec<Request> {
        let cut = |burst: usize| self.tensors * burst / self.bursts.max(1);
        (cut(number)..cut(number + 1)).map(request).collect()
    }
}

fn request(index: usize) -> Request {
    Request {
        name: format!("allreduce.model.layer{index}.weight").into(),
        kind: OpKind::Allreduce,
        dtype: DType::Float32,
        shape: Shape::new([64, 64]),
        root: Rank::COORDINATOR,
        device: Device::Cpu,
        reduce_op: ReduceOp::Average,
        prescale: 1.0,
        postscale: 1.0,
        group: None,
    }
}

/// What one step cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepCost {
    /// Messages that were sent.
    pub messages: u64,
    /// Messages that rank 0 sent and received.
    pub root_messages: u64,
    /// Most messages that a rank sent and received.
    pub most_messages: u64,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Bytes that rank 0 sent and received.
    pub root_bytes: u64,
    /// From the last submission to the moment when the last rank knew the last answer.
    pub answered_after: Duration,
}

/// What a job cost.
#[derive(Debug, Clone)]
pub struct SimulationReport {
    /// Its steps: in the first, tensors are described in full, later by their numbers.
    pub steps: Vec<StepCost>,
    /// Most ranks that a rank is connected with.
    pub most_connections: usize,
    /// Ranks that rank 0 is connected with.
    pub root_connections: usize,
}

/// Runs a job of some steps. `inspect` is called at the end, while all state is still there.
pub fn simulate(
    job: &SimulatedJob,
    steps: usize,
    inspect: impl FnOnce(),
) -> Result<SimulationReport> {
    let mut network = SimulatedNetwork::new(job);
    let steps = (0..steps)
        .map(|_| network.step())
        .collect::<Result<Vec<StepCost>>>()?;
    inspect();
    Ok(SimulationReport {
        steps,
        most_connections: network.connections().max().unwrap_or(0),
        root_connections: network.connections().next().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests;
