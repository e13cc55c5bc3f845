//! The coordinator's part in plans: when one begins, and what is said of it while it runs.

use hvd_types::Ranks;
use hvd_wire::{ResponseList, ScheduleCommand, ScheduleHalt, TensorRef};

use super::Coordinator;
use crate::fusion::plan::{Agreed, fuse};

/// The most that travels together by a plan. A plan has no need of large operations, and the
/// smaller they are, the sooner the first gradients are on their way.
const PLANNED_BYTES: u64 = 2 << 20;

impl Coordinator {
    /// The beginning of a plan, if the tensors that are executed now complete a step like those
    /// before.
    pub(super) fn schedule(&mut self, agreed: &[Agreed]) -> Option<ScheduleCommand> {
        let rhythm = self.rhythm.as_mut()?;
        let unfit = !self.joined.is_empty()
            || self.autotuner.is_some()
            || !self.pace.cycle_time.is_zero()
            || self.options.timeline.is_recording();
        if unfit {
            rhythm.forget();
            return None;
        }
        rhythm.observe(agreed);
        let step = rhythm.take_step()?;
        let cache = &self.cache;
        let lives = |tensor: &Agreed| match &tensor.reference {
            TensorRef::Cached(id) => cache.is_live(*id),
            TensorRef::New(_) => false,
        };
        if !step.iter().all(lives) {
            return None;
        }
        let threshold = self.pace.fusion_threshold.min(PLANNED_BYTES);
        let operations = fuse(step, threshold, self.options.group_fusion);
        for name in std::mem::take(&mut self.waiting).into_keys() {
            if let Some(stalls) = &mut self.stalls {
                stalls.answered(&name);
            }
        }
        Some(self.conductor.begin(operations, self.sequence))
    }

    /// Members do not go on with a plan.
    pub(super) fn hear_halt(&mut self, ranks: &Ranks, halted: ScheduleHalt) {
        for rank in ranks.iter() {
            if let Ok(position) = self.position(rank) {
                self.conductor.hear(position, halted);
            }
        }
    }

    /// Whether a plan runs, and nothing is negotiated.
    pub(crate) fn has_plan(&self) -> bool {
        self.conductor.is_running()
    }

    /// What there is to say of the plan; `disturbed` if there is something that it has no place for.
    pub(crate) fn conduct(&mut self, disturbed: bool) -> Option<ResponseList> {
        let disturbed = disturbed || self.options.timeline.is_recording();
        let (schedule, rounds) = self.conductor.decide(disturbed)?;
        if let (Some(rhythm), Some(rounds)) = (&mut self.rhythm, rounds) {
            rhythm.ended_after(rounds);
        }
        self.sequence += 1;
        Some(ResponseList {
            process_set: self.id,
            sequence: self.sequence,
            schedule: Some(schedule),
            ..ResponseList::default()
        })
    }
}
