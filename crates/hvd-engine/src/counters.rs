//! What an engine has done so far, in numbers: above all, whether steps still need negotiation.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts that one engine keeps and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) negotiation_messages: Counter,
    pub(crate) ready_notices: Counter,
    pub(crate) schedules: Counter,
    pub(crate) scheduled_operations: Counter,
    pub(crate) negotiated_operations: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts since the engine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Messages of the negotiation that this rank has sent.
    pub negotiation_messages: u64,
    /// Ready notices that this rank has sent for operations of a schedule.
    pub ready_notices: u64,
    /// Schedules that have begun.
    pub schedules: u64,
    /// Operations that were executed by a schedule, without negotiation.
    pub scheduled_operations: u64,
    /// Operations that were executed because the ranks negotiated them.
    pub negotiated_operations: u64,
    /// Connections to other ranks, over which control messages and tensors travel.
    pub connections: u64,
}

impl Counters {
    /// What was counted, of an engine whose transport has so many connections.
    pub(crate) fn read(&self, connections: usize) -> Counts {
        Counts {
            negotiation_messages: self.negotiation_messages.get(),
            ready_notices: self.ready_notices.get(),
            schedules: self.schedules.get(),
            scheduled_operations: self.scheduled_operations.get(),
            negotiated_operations: self.negotiated_operations.get(),
            connections: u64::try_from(connections).unwrap_or(u64::MAX),
        }
    }
}
