//! How far this rank has come in a plan: which tensors it has for the operations to come, which of
//! them it has called for, and whether it goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_wire::{CacheId, Operation, Schedule, ScheduleHalt, TensorRef};

use crate::tables::Table;

/// How long tensors may wait for others before they are negotiated instead, so that rank 0 learns
/// who misses what.
const PATIENCE: Duration = Duration::from_secs(1);

/// One rank's way through a plan.
#[derive(Debug)]
pub(crate) struct Course {
    number: u64,
    stages: Vec<Stage>,
    /// The stage of each tensor.
    places: Table<CacheId, usize>,
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
struct Stage {
    operation: Arc<Operation>,
    /// Tensors that this rank has not submitted yet.
    missing: usize,
    /// Whether its tensors travel with the notes.
    is_noted: bool,
}

/// The plan names a tensor that this rank does not know, or one twice, or none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule {0} makes no sense here")]
pub(crate) struct Senseless(u64);

impl Course {
    /// The beginning of a plan. `is_noted` says of an operation whether its tensors travel with the
    /// notes; none if it is not known here.
    pub(crate) fn new(
        schedule: Schedule,
        now: Instant,
        is_noted: impl Fn(&Operation) -> Option<bool>,
    ) -> Result<Self, Senseless> {
        let number = schedule.number;
        let mut places = Table::default();
        let mut stages = Vec::with_capacity(schedule.operations.len());
        for operation in schedule.operations {
            for reference in &operation.tensors {
                let TensorRef::Cached(id) = reference else {
                    return Err(Senseless(number));
                };
                if places.insert(*id, stages.len()).is_some() {
                    return Err(Senseless(number));
                }
            }
            stages.push(Stage {
                missing: operation.tensors.len(),
                is_noted: is_noted(&operation).ok_or(Senseless(number))?,
                operation: Arc::new(operation),
            });
        }
        if stages.is_empty() || stages.iter().any(|stage| stage.missing == 0) {
            return Err(Senseless(number));
        }
        Ok(Self {
            number,
            stages,
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

    /// Takes a tensor that was submitted here; false if the plan has no place for it.
    pub(crate) fn accept(&mut self, id: CacheId) -> bool {
        let Some(&place) = self.places.get(&id).filter(|_| !self.halted) else {
            return false;
        };
        let stage = &mut self.stages[place];
        // A name is in flight once, so a tensor cannot come twice before its stage is executed.
        let expected = stage.missing > 0;
        stage.missing -= usize::from(expected);
        expected
    }

    /// Whether this rank can call for the next operation.
    pub(crate) fn is_ready(&self) -> bool {
        !self.called && !self.halted && self.stage(self.next).missing == 0
    }

    /// Whether this rank has called for the next operation, which is therefore not over.
    pub(crate) fn has_called(&self) -> bool {
        self.called
    }

    pub(crate) fn call(&mut self) {
        self.called = true;
    }

    /// The next operation, and whether its tensors travel with the notes.
    pub(crate) fn current(&self) -> (Arc<Operation>, bool) {
        let stage = self.stage(self.next);
        (Arc::clone(&stage.operation), stage.is_noted)
    }

    /// The next operation has been executed.
    pub(crate) fn executed(&mut self, now: Instant) {
        let place = self.place(self.next);
        let stage = &mut self.stages[place];
        stage.missing = stage.operation.tensors.len();
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
        self.stage(ahead).missing.max(1)
    }

    /// Whether this rank cannot go on because tensors were not submitted.
    pub(crate) fn lacks_tensors(&self) -> bool {
        !self.halted && !self.called && self.stage(self.next).missing > 0
    }

    /// Notes when something began to wait.
    pub(crate) fn waits_since(&mut self, now: Instant) {
        self.progress = now;
    }

    /// When waiting tensors are to be negotiated instead.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.halted).then(|| self.progress + PATIENCE)
    }

    /// Goes on no more. What rank 0 is to be told, if it has not been.
    pub(crate) fn halt(&mut self) -> Option<ScheduleHalt> {
        if std::mem::replace(&mut self.halted, true) {
            return None;
        }
        let (schedule, next) = (self.number, self.next + u64::from(self.called));
        Some(ScheduleHalt { schedule, next })
    }

    fn stage(&self, operation: u64) -> &Stage {
        &self.stages[self.place(operation)]
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "less than the number of stages"
    )]
    fn place(&self, operation: u64) -> usize {
        (operation % self.stages.len() as u64) as usize
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

    fn course(stages: &[&[u64]]) -> Result<Course, Senseless> {
        let schedule = Schedule {
            number: 4,
            operations: stages.iter().map(|ids| operation(ids)).collect(),
        };
        Course::new(schedule, Instant::now(), |_| Some(false))
    }

    #[test]
    fn operations_come_in_the_order_of_the_plan_whatever_comes_first() {
        let mut course = course(&[&[1, 2], &[3]]).unwrap();
        assert_eq!(course.wanted(), 2);
        assert!(course.accept(CacheId(3)) && course.accept(CacheId(2)));
        assert!(!course.is_ready());
        assert!(course.accept(CacheId(1)) && course.is_ready());
        course.call();
        assert!(!course.is_ready() && course.has_called());
        course.executed(Instant::now());
        assert!(course.is_ready(), "the second one was there before");
        course.call();
        course.executed(Instant::now());
        assert_eq!((course.next(), course.wanted()), (2, 2));
        assert!(course.accept(CacheId(1)), "the next round");
    }

    #[test]
    fn strangers_and_late_comers_have_no_place() {
        let mut course = course(&[&[1], &[2]]).unwrap();
        assert!(!course.accept(CacheId(9)));
        assert!(course.accept(CacheId(1)) && !course.accept(CacheId(1)));
        course.call();
        assert_eq!(
            course.halt(),
            Some(ScheduleHalt {
                schedule: 4,
                next: 1
            })
        );
        assert_eq!(course.halt(), None);
        assert!(!course.accept(CacheId(2)) && course.has_called());
    }

    #[test]
    fn plans_without_sense_are_refused() {
        assert!(course(&[]).is_err());
        assert!(course(&[&[]]).is_err());
        assert!(course(&[&[1], &[1]]).is_err());
    }
}
