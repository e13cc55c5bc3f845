//! Detects, on rank 0, that the same tensors come over and over.
//!
//! A step ends where a tensor comes for the second time. The order inside a step may change from
//! one to the next, as it does when gradients of several ranks become ready in a race.

use std::collections::HashSet;

use hvd_types::OpKind;
use hvd_wire::{CacheId, TensorRef};

use crate::fusion::batches::Agreed;

/// Steps that must have been alike before there is a schedule.
const LIKE_STEPS: u32 = 2;

/// The most that are asked for after schedules that did not last.
const MOST_LIKE_STEPS: u32 = 64;

/// A schedule that lasted for so many rounds was worth it.
const WORTHWHILE_ROUNDS: u64 = 16;

/// What has come lately.
#[derive(Debug)]
pub(crate) struct StepDetector {
    /// The step under way, in the order of arrival.
    step: Vec<Agreed>,
    seen: HashSet<CacheId>,
    /// The tensors of the step before.
    last: HashSet<CacheId>,
    /// How many steps before this one were like the last.
    alike: u32,
    /// How many have to be.
    needed: u32,
}

impl StepDetector {
    pub(crate) fn new() -> Self {
        Self {
            step: Vec::new(),
            seen: HashSet::new(),
            last: HashSet::new(),
            alike: 0,
            needed: LIKE_STEPS,
        }
    }

    /// Takes in the tensors that are executed next.
    pub(crate) fn observe(&mut self, tensors: &[Agreed]) {
        for tensor in tensors {
            match &tensor.reference {
                TensorRef::Cached(id) if may_be_scheduled(tensor.agreement.kind) => {
                    self.tensor(*id, tensor);
                }
                _ => self.forget(),
            }
        }
    }

    fn tensor(&mut self, id: CacheId, tensor: &Agreed) {
        if self.seen.contains(&id) {
            self.alike = if self.seen == self.last {
                self.alike + 1
            } else {
                1
            };
            std::mem::swap(&mut self.last, &mut self.seen);
            self.seen.clear();
            self.step.clear();
        }
        self.seen.insert(id);
        self.step.push(tensor.clone());
    }

    /// Begins anew, because something came that fits no schedule.
    pub(crate) fn forget(&mut self) {
        self.step.clear();
        self.seen.clear();
        self.last.clear();
        self.alike = 0;
    }

    /// The tensors of a step, if one was just completed and enough like it have come before.
    pub(crate) fn take_step(&mut self) -> Option<Vec<Agreed>> {
        if self.alike + 1 < self.needed || self.seen != self.last {
            return None;
        }
        let step = std::mem::take(&mut self.step);
        self.forget();
        (!step.is_empty()).then_some(step)
    }

    /// A schedule has ended after so many rounds. Those that did not last make it more careful.
    pub(crate) fn ended_after(&mut self, rounds: u64) {
        self.needed = if rounds >= WORTHWHILE_ROUNDS {
            LIKE_STEPS
        } else {
            (self.needed * 2).min(MOST_LIKE_STEPS)
        };
    }
}

/// Operations that their description defines completely.
fn may_be_scheduled(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Allreduce | OpKind::Allgather | OpKind::Broadcast | OpKind::Reducescatter
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hvd_types::{DType, Device, Rank, ReduceOp, Shape};

    use super::*;
    use crate::negotiate::agreement::{Agreement, Devices};

    fn tensor(id: u64, kind: OpKind) -> Agreed {
        let agreement = Agreement {
            name: id.to_string().into(),
            kind,
            dtype: DType::Float32,
            reduce_op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            root: Rank::new(0),
            shape: Shape::new([1]),
            first_dimensions: vec![],
            devices: Devices::Same(Device::Cpu),
            group: None,
        };
        Agreed {
            agreement: Arc::new(agreement),
            reference: TensorRef::Cached(CacheId(id)),
            divisor: 1,
        }
    }

    /// The tensor after which a step was complete and enough like it had come.
    fn found(detector: &mut StepDetector, ids: &[u64]) -> Option<usize> {
        ids.iter().position(|&id| {
            detector.observe(&[tensor(id, OpKind::Allreduce)]);
            detector.take_step().is_some()
        })
    }

    #[test]
    fn two_like_steps_are_enough_in_whatever_order() {
        let mut detector = StepDetector::new();
        assert_eq!(found(&mut detector, &[1, 2, 3, 2, 1]), None);
        assert_eq!(found(&mut detector, &[3]), Some(0));
        assert_eq!(found(&mut detector, &[1, 2, 3]), None, "from the beginning");
        assert_eq!(found(&mut StepDetector::new(), &[7, 7]), Some(1));
        assert_eq!(
            found(&mut StepDetector::new(), &[9, 1, 2, 1, 2, 1, 2]),
            Some(6)
        );
    }

    #[test]
    fn what_cannot_be_scheduled_begins_anew() {
        let mut detector = StepDetector::new();
        assert_eq!(found(&mut detector, &[1]), None);
        detector.observe(&[tensor(2, OpKind::Barrier)]);
        assert_eq!(found(&mut detector, &[1]), None);
        let fresh = Agreed {
            reference: TensorRef::New(tensor(3, OpKind::Allreduce).agreement.spec()),
            ..tensor(3, OpKind::Allreduce)
        };
        detector.observe(&[fresh]);
        assert_eq!(found(&mut detector, &[1, 1]), Some(1));
    }

    #[test]
    fn schedules_that_do_not_last_make_it_careful() {
        let mut detector = StepDetector::new();
        detector.ended_after(3);
        assert_eq!(found(&mut detector, &[1; 8]), Some(3));
        detector.ended_after(WORTHWHILE_ROUNDS);
        assert_eq!(found(&mut detector, &[1; 8]), Some(1));
    }
}
