//! One operation of a schedule among many ranks: the real ready barrier, on the simulator's
//! network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use hvd_engine::negotiation::{BarrierStep, ReadyBarrier};
use hvd_types::Rank;
use hvd_wire::ReadyNotice;

use crate::{SimulatedJob, StepCost};

/// The bytes of a notice without tensors, with its frame.
const NOTICE_BYTES: u64 = 21;

/// What happens at a rank: its own call, or a notice of another.
type BarrierEvent = Reverse<(Duration, usize, Option<usize>)>;

/// Ranks that call for one operation.
struct BarrierSimulation<'a> {
    job: &'a SimulatedJob,
    calls: Vec<ReadyBarrier>,
    has_called: Vec<bool>,
    /// Until when each rank has its hands full.
    busy: Vec<Duration>,
    handled: Vec<u64>,
    events: BinaryHeap<BarrierEvent>,
    messages: u64,
    /// When the last rank knew that all have called.
    over: Duration,
}

/// What it costs until every rank knows that all have called, from the last rank's call on, and on
/// how many ranks a rank depends for that.
pub fn ready_barrier(job: &SimulatedJob) -> (StepCost, usize) {
    let ranks = (0..job.ranks).map(Rank::from_index);
    let calls: Vec<ReadyBarrier> = ranks
        .map(|rank| ReadyBarrier::new(rank, job.ranks))
        .collect();
    let partners = calls.first().map_or(0, |call| call.partners().len());
    let mut simulation = BarrierSimulation {
        job,
        calls,
        has_called: vec![false; job.ranks],
        busy: vec![Duration::ZERO; job.ranks],
        handled: vec![0; job.ranks],
        events: BinaryHeap::new(),
        messages: 0,
        over: Duration::ZERO,
    };
    let last_call = simulation.begin();
    while let Some(Reverse((time, rank, from))) = simulation.events.pop() {
        simulation.happen(time, rank, from);
    }
    let step = StepCost {
        messages: simulation.messages,
        root_messages: simulation.handled.first().copied().unwrap_or(0),
        most_messages: simulation.handled.iter().copied().max().unwrap_or(0),
        bytes: simulation.messages * NOTICE_BYTES,
        root_bytes: simulation.handled.first().copied().unwrap_or(0) * NOTICE_BYTES,
        answered_after: simulation.over.saturating_sub(last_call),
    };
    (step, partners)
}

impl BarrierSimulation<'_> {
    /// Has every rank call at a moment of its own, and returns the last one.
    fn begin(&mut self) -> Duration {
        let skew = u64::try_from(self.job.skew.as_nanos()).unwrap_or(u64::MAX);
        let mut last = Duration::ZERO;
        for rank in 0..self.job.ranks {
            // Spread without a pattern that the network could profit from.
            let mixed = (rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let time = Duration::from_nanos(mixed % skew.max(1));
            last = last.max(time);
            self.events.push(Reverse((time, rank, None)));
        }
        last
    }

    fn happen(&mut self, time: Duration, rank: usize, from: Option<usize>) {
        self.busy[rank] = self.busy[rank].max(time);
        match from {
            None => {
                self.has_called[rank] = true;
                for peer in self.calls[rank].first_notified().to_vec() {
                    self.send(rank, peer.index());
                }
            }
            Some(from) => {
                self.handle(rank);
                let notice = ReadyNotice {
                    schedule: 1,
                    operation: 0,
                    tensors: Vec::new(),
                };
                self.calls[rank].receive(Rank::from_index(from), notice);
            }
        }
        if self.has_called[rank] {
            self.go_on(rank);
        }
    }

    fn go_on(&mut self, rank: usize) {
        loop {
            match self.calls[rank].step(1, 0) {
                BarrierStep::Waiting(_) => return,
                BarrierStep::Notify(peer) => self.send(rank, peer.index()),
                BarrierStep::Complete => {
                    self.over = self.over.max(self.busy[rank]);
                    return;
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: usize) {
        self.handle(from);
        self.messages += 1;
        let per_host = self.job.per_host.max(1);
        let latency = if from / per_host == to / per_host {
            self.job.costs.local_latency
        } else {
            self.job.costs.remote_latency
        };
        self.events
            .push(Reverse((self.busy[from] + latency, to, Some(from))));
    }

    fn handle(&mut self, rank: usize) {
        self.handled[rank] += 1;
        self.busy[rank] += self.job.costs.per_message;
    }
}
