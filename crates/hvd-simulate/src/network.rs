//! The wires and the clock: messages take time on their way, and of the ranks that handle them.
//!
//! A rank does one thing at a time. What arrives while it is busy waits, and is then handled at
//! once, as in one turn of the engine's cycle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_engine::negotiation::{NegotiatingRank, OutgoingMessage};
use hvd_engine::{EngineOptions, Error, Result, StallOptions};
use hvd_types::{ProcessSetId, Rank};
use hvd_wire::Request;

use crate::{Costs, SimulatedJob, StepCost, Wiring};

/// All ranks of a job and what is on its way between them.
pub(crate) struct SimulatedNetwork {
    job: SimulatedJob,
    ranks: Vec<SimulatedRank>,
    /// What happens next, by time and then in the order in which it was queued.
    events: BinaryHeap<Reverse<(Duration, u64, NetworkEvent)>>,
    queued: u64,
    start: Instant,
    now: Duration,
    step: StepCost,
}

/// A rank, and what it is doing.
struct SimulatedRank {
    negotiation: NegotiatingRank,
    host: usize,
    inbox: Vec<(Rank, Arc<[u8]>)>,
    submissions: Vec<Arc<[Request]>>,
    busy_until: Duration,
    /// Whether a run is queued that will see the inbox.
    awake: bool,
    messages: u64,
    bytes: u64,
    answers: usize,
    answered: Duration,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NetworkEvent {
    /// A burst of submissions.
    Submit(usize, usize),
    Arrive {
        from: Rank,
        to: usize,
        bytes: Arc<[u8]>,
    },
    /// A rank handles what is in its inbox.
    Run(usize),
}

impl SimulatedNetwork {
    pub(crate) fn new(job: &SimulatedJob) -> Self {
        let (topology, options) = (job.topology(), options());
        let ranks = match job.wiring {
            Wiring::Star => NegotiatingRank::star(&topology, &options),
            Wiring::Tree => NegotiatingRank::tree(&topology, &options),
        };
        let simulated = |(index, negotiation)| SimulatedRank {
            negotiation,
            host: index / job.per_host.max(1),
            inbox: Vec::new(),
            submissions: Vec::new(),
            busy_until: Duration::ZERO,
            awake: false,
            messages: 0,
            bytes: 0,
            answers: 0,
            answered: Duration::ZERO,
        };
        Self {
            job: *job,
            ranks: ranks.into_iter().enumerate().map(simulated).collect(),
            events: BinaryHeap::new(),
            queued: 0,
            start: Instant::now(),
            now: Duration::ZERO,
            step: StepCost::default(),
        }
    }

    /// How many ranks each rank is connected with.
    pub(crate) fn connections(&self) -> impl Iterator<Item = usize> {
        let ranks = self.ranks.iter();
        ranks.map(|rank| rank.negotiation.connections())
    }

    /// Lets every rank submit its tensors, and runs until all of them are answered everywhere.
    pub(crate) fn step(&mut self) -> Result<StepCost> {
        self.step = StepCost::default();
        let begin = self.now;
        let mut submitted = begin;
        for burst in 0..self.job.bursts {
            let requests: Arc<[Request]> = self.job.burst(burst).into();
            let number = u32::try_from(burst).unwrap_or(u32::MAX);
            for rank in 0..self.ranks.len() {
                let when = begin + self.job.pause * number + self.skew(rank, burst);
                submitted = submitted.max(when);
                self.ranks[rank].submissions.push(Arc::clone(&requests));
                self.queue(when, NetworkEvent::Submit(rank, burst));
            }
        }
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            self.now = time;
            self.happen(event)?;
        }
        for station in &mut self.ranks {
            let missing = self.job.tensors.checked_sub(station.answers);
            if missing != Some(0) {
                let text = format!("{} tensors were answered", station.answers);
                return Err(Error::Internal(text));
            }
            station.answers = 0;
            let messages = std::mem::take(&mut station.messages);
            self.step.most_messages = self.step.most_messages.max(messages);
            let bytes = std::mem::take(&mut station.bytes);
            if station.negotiation.rank() == Rank::COORDINATOR {
                (self.step.root_messages, self.step.root_bytes) = (messages, bytes);
            }
            station.submissions.clear();
        }
        let answered = self.ranks.iter().map(|station| station.answered).max();
        self.step.answered_after = answered.unwrap_or_default().saturating_sub(submitted);
        Ok(self.step)
    }

    fn happen(&mut self, event: NetworkEvent) -> Result<()> {
        match event {
            NetworkEvent::Submit(rank, burst) => {
                let now = self.start + self.now;
                let station = &mut self.ranks[rank];
                let requests = station.submissions[burst].to_vec();
                station
                    .negotiation
                    .submit(ProcessSetId::GLOBAL, requests, now)?;
                self.wake(rank);
            }
            NetworkEvent::Arrive { from, to, bytes } => {
                self.ranks[to].inbox.push((from, bytes));
                self.wake(to);
            }
            NetworkEvent::Run(rank) => self.run(rank)?,
        }
        Ok(())
    }

    /// Queues a run for as soon as the rank has time.
    fn wake(&mut self, rank: usize) {
        let station = &mut self.ranks[rank];
        if !std::mem::replace(&mut station.awake, true) {
            let when = station.busy_until.max(self.now);
            self.queue(when, NetworkEvent::Run(rank));
        }
    }

    fn run(&mut self, rank: usize) -> Result<()> {
        let costs = self.job.costs;
        let mut time = self.now;
        let station = &mut self.ranks[rank];
        if time < station.busy_until {
            let when = station.busy_until;
            self.queue(when, NetworkEvent::Run(rank));
            return Ok(());
        }
        station.awake = false;
        for (from, bytes) in std::mem::take(&mut station.inbox) {
            time += station.handle(&costs, &bytes);
            station
                .negotiation
                .receive(from, &bytes, self.start + time)?;
        }
        station.negotiation.advance(self.start + time)?;
        let answers = station.negotiation.take_answer_count();
        if answers > 0 {
            station.answers += answers;
            station.answered = time;
        }
        let from = station.negotiation.rank();
        for OutgoingMessage { to, bytes } in self.ranks[rank].negotiation.take_outgoing() {
            time += self.ranks[rank].handle(&costs, &bytes);
            self.step.messages += 1;
            self.step.bytes += bytes.len() as u64;
            let to = to.index();
            let near = self.ranks[rank].host == self.ranks[to].host;
            let latency = if near {
                costs.local_latency
            } else {
                costs.remote_latency
            };
            self.queue(time + latency, NetworkEvent::Arrive { from, to, bytes });
        }
        let station = &mut self.ranks[rank];
        station.busy_until = time;
        let due = station.negotiation.due();
        if let Some(due) = due {
            let when = due.saturating_duration_since(self.start).max(time);
            self.queue(when, NetworkEvent::Run(rank));
        }
        Ok(())
    }

    fn queue(&mut self, when: Duration, event: NetworkEvent) {
        self.queued += 1;
        self.events.push(Reverse((when, self.queued, event)));
    }

    /// By how much a rank is late: always the same for the same rank and burst, and mixed.
    fn skew(&self, rank: usize, burst: usize) -> Duration {
        let mixed = (rank as u64 * 131 + burst as u64 * 31 + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let part = u32::try_from(mixed >> 48).unwrap_or(0);
        self.job.skew * part / (1 << 16)
    }
}

impl SimulatedRank {
    /// Counts a message that is sent or received, and returns how long that takes.
    fn handle(&mut self, costs: &Costs, bytes: &[u8]) -> Duration {
        self.messages += 1;
        self.bytes += bytes.len() as u64;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        costs.per_message + costs.per_kibibyte * length / 1024
    }
}

fn options() -> EngineOptions {
    EngineOptions {
        fusion_threshold: 64 << 20,
        cache_capacity: 1024,
        schedules: false,
        stall: Some(StallOptions {
            warning: Duration::from_secs(60),
            shutdown: None,
        }),
        ..EngineOptions::default()
    }
}
