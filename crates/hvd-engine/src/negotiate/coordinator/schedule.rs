//! The coordinator's part in schedules: when one begins, and the commands about it while it runs.

use hvd_types::Ranks;
use hvd_wire::{ResponseList, ScheduleCommand, ScheduleHalt, TensorRef};

use super::Coordinator;
use crate::fusion::batches::{Agreed, fuse};

/// The most that travels together by a schedule. A schedule has no need of large operations, and
/// the smaller they are, the sooner the first gradients are on their way.
const MOST_SCHEDULED_BYTES: u64 = 2 << 20;

impl Coordinator {
    /// The beginning of a schedule, if the tensors that are executed now complete a step like those
    /// before.
    pub(super) fn schedule(&mut self, agreed: &[Agreed]) -> Option<ScheduleCommand> {
        let detector = self.detector.as_mut()?;
        let unfit = !self.joined.is_empty()
            || self.autotuner.is_some()
            || !self.pace.cycle_time.is_zero()
            || self.options.timeline.is_recording();
        if unfit {
            detector.forget();
            return None;
        }
        detector.observe(agreed);
        let step = detector.take_step()?;
        let cache = &self.cache;
        let lives = |tensor: &Agreed| match &tensor.reference {
            TensorRef::Cached(id) => cache.is_live(*id),
            TensorRef::New(_) => false,
        };
        if !step.iter().all(lives) {
            return None;
        }
        let threshold = self.pace.fusion_threshold.min(MOST_SCHEDULED_BYTES);
        let operations = fuse(step, threshold, self.options.group_fusion);
        for name in std::mem::take(&mut self.waiting).into_keys() {
            if let Some(stalls) = &mut self.stalls {
                stalls.answered(&name);
            }
        }
        Some(self.schedule.begin(operations, self.sequence))
    }

    /// Members do not go on with a schedule.
    pub(super) fn record_halt(&mut self, ranks: &Ranks, halted: ScheduleHalt) {
        for rank in ranks.iter() {
            if let Ok(position) = self.position(rank) {
                self.schedule.receive(position, halted);
            }
        }
    }

    /// Whether a schedule runs, and nothing is negotiated.
    pub(crate) fn has_schedule(&self) -> bool {
        self.schedule.is_running()
    }

    /// The next command about the schedule, if any; `disturbed` if there is something that it has
    /// no place for.
    pub(crate) fn decide_schedule(&mut self, disturbed: bool) -> Option<ResponseList> {
        let disturbed = disturbed || self.options.timeline.is_recording();
        let (schedule, rounds) = self.schedule.decide(disturbed)?;
        if let (Some(detector), Some(rounds)) = (&mut self.detector, rounds) {
            detector.ended_after(rounds);
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
