//! How far this rank has come in a schedule: which tensors it has for the operations to come, which
//! of them it has called for, and whether it goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_wire::{CacheId, Operation, Schedule, ScheduleHalt, TensorRef};

use crate::hash::FastMap;

/// How long tensors may wait for others before they are negotiated instead, so that rank 0 learns
/// which ranks are missing.
const WAIT_TIMEOUT: Duration = Duration::from_secs(1);

/// One rank's progress through a schedule.
#[derive(Debug)]
pub(crate) struct ScheduleProgress {
    number: u64,
    operations: Vec<ScheduledOperation>,
    /// The operation of each tensor, by its index in `operations`.
    places: FastMap<CacheId, usize>,
    /// The operation that is executed next, counted over all rounds.
    next: u64,
    /// Whether this rank has called for it.
    called: bool,
    halted: bool,
    /// When an operation was last executed, or the first tensor of the next one came.
    progress: Instant,
}

/// One operation of a round.
#[derive(Debug)]
struct ScheduledOperation {
    operation: Arc<Operation>,
    /// Tensors that this rank has not submitted yet.
    missing: usize,
    /// Whether its tensors travel with the notices.
    is_inlined: bool,
}

/// The schedule names a tensor that this rank does not know, or one twice, or none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule {0} makes no sense here")]
pub(crate) struct InvalidSchedule(u64);

impl ScheduleProgress {
    /// The beginning of a schedule. `is_inlined` returns whether the tensors of an operation travel
    /// with the notices; none if it is not known here.
    pub(crate) fn new(
        schedule: Schedule,
        now: Instant,
        is_inlined: impl Fn(&Operation) -> Option<bool>,
    ) -> Result<Self, InvalidSchedule> {
        let number = schedule.number;
        let mut places = FastMap::default();
        let mut operations = Vec::with_capacity(schedule.operations.len());
        for operation in schedule.operations {
            for reference in &operation.tensors {
                let TensorRef::Cached(id) = reference else {
                    return Err(InvalidSchedule(number));
                };
                if places.insert(*id, operations.len()).is_some() {
                    return Err(InvalidSchedule(number));
                }
            }
            operations.push(ScheduledOperation {
                missing: operation.tensors.len(),
                is_inlined: is_inlined(&operation).ok_or(InvalidSchedule(number))?,
                operation: Arc::new(operation),
            });
        }
        if operations.is_empty() || operations.iter().any(|scheduled| scheduled.missing == 0) {
            return Err(InvalidSchedule(number));
        }
        Ok(Self {
            number,
            operations,
            places,
            next: 0,
            called: false,
            halted: false,
            progress: now,
        })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The operation that is executed next, counted over all rounds.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes a tensor that was submitted here; false if the schedule has no place for it.
    pub(crate) fn accept(&mut self, id: CacheId) -> bool {
        let Some(&place) = self.places.get(&id).filter(|_| !self.halted) else {
            return false;
        };
        let scheduled = &mut self.operations[place];
        // A name is in flight once, so a tensor cannot come twice before its operation is executed.
        let expected = scheduled.missing > 0;
        scheduled.missing -= usize::from(expected);
        expected
    }

    /// Whether this rank can call for the next operation.
    pub(crate) fn is_ready(&self) -> bool {
        !self.called && !self.halted && self.scheduled(self.next).missing == 0
    }

    /// Whether this rank has called for the next operation, which is therefore not over.
    pub(crate) fn has_called(&self) -> bool {
        self.called
    }

    pub(crate) fn call(&mut self) {
        self.called = true;
    }

    /// The next operation, and whether its tensors travel with the notices.
    pub(crate) fn current(&self) -> (Arc<Operation>, bool) {
        let scheduled = self.scheduled(self.next);
        (Arc::clone(&scheduled.operation), scheduled.is_inlined)
    }

    /// The next operation has been executed.
    pub(crate) fn executed(&mut self, now: Instant) {
        let place = self.place(self.next);
        let scheduled = &mut self.operations[place];
        scheduled.missing = scheduled.operation.tensors.len();
        self.next += 1;
        self.called = false;
        self.progress = now;
    }

    /// Tensors that are still to be submitted before this rank can do anything.
    pub(crate) fn wanted(&self) -> usize {
        if self.halted {
            return 1;
        }
        let ahead = self.next + u64::from(self.called);
        self.scheduled(ahead).missing.max(1)
    }

    /// Whether this rank cannot go on because tensors were not submitted.
    pub(crate) fn lacks_tensors(&self) -> bool {
        !self.halted && !self.called && self.scheduled(self.next).missing > 0
    }

    /// Records when something began to wait.
    pub(crate) fn waits_since(&mut self, now: Instant) {
        self.progress = now;
    }

    /// When waiting tensors are to be negotiated instead.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.halted).then(|| self.progress + WAIT_TIMEOUT)
    }

    /// Goes on no more. Returns what rank 0 has to learn of that, if it has not yet.
    pub(crate) fn halt(&mut self) -> Option<ScheduleHalt> {
        if std::mem::replace(&mut self.halted, true) {
            return None;
        }
        let (schedule, next) = (self.number, self.next + u64::from(self.called));
        Some(ScheduleHalt { schedule, next })
    }

    fn scheduled(&self, operation: u64) -> &ScheduledOperation {
        &self.operations[self.place(operation)]
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "less than the number of operations"
    )]
    fn place(&self, operation: u64) -> usize {
        (operation % self.operations.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use hvd_types::{DType, OpKind, Rank, ReduceOp};

    use super::*;

    fn operation(ids: &[u64]) -> Operation {
        Operation {
            kind: OpKind::Allreduce,
            dtype: DType::Float32,
            reduce_op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            root: Rank::new(0),
            divisor: 2,
            tensors: ids
                .iter()
                .map(|&id| TensorRef::Cached(CacheId(id)))
                .collect(),
        }
    }

    fn progress(operations: &[&[u64]]) -> Result<ScheduleProgress, InvalidSchedule> {
        let schedule = Schedule {
            number: 4,
            operations: operations.iter().map(|ids| operation(ids)).collect(),
        };
        ScheduleProgress::new(schedule, Instant::now(), |_| Some(false))
    }

    #[test]
    fn operations_come_in_the_order_of_the_schedule_whatever_comes_first() {
        let mut progress = progress(&[&[1, 2], &[3]]).unwrap();
        assert_eq!(progress.wanted(), 2);
        assert!(progress.accept(CacheId(3)) && progress.accept(CacheId(2)));
        assert!(!progress.is_ready());
        assert!(progress.accept(CacheId(1)) && progress.is_ready());
        progress.call();
        assert!(!progress.is_ready() && progress.has_called());
        progress.executed(Instant::now());
        assert!(progress.is_ready(), "the second one was there before");
        progress.call();
        progress.executed(Instant::now());
        assert_eq!((progress.next(), progress.wanted()), (2, 2));
        assert!(progress.accept(CacheId(1)), "the next round");
    }

    #[test]
    fn strangers_and_late_comers_have_no_place() {
        let mut progress = progress(&[&[1], &[2]]).unwrap();
        assert!(!progress.accept(CacheId(9)));
        assert!(progress.accept(CacheId(1)) && !progress.accept(CacheId(1)));
        progress.call();
        assert_eq!(
            progress.halt(),
            Some(ScheduleHalt {
                schedule: 4,
                next: 1
            })
        );
        assert_eq!(progress.halt(), None);
        assert!(!progress.accept(CacheId(2)) && progress.has_called());
    }

    #[test]
    fn schedules_without_sense_are_refused() {
        assert!(progress(&[]).is_err());
        assert!(progress(&[&[]]).is_err());
        assert!(progress(&[&[1], &[1]]).is_err());
    }
}
