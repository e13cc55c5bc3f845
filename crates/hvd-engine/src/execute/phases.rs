//! The parts of an operation in the timeline: one after the other, for all tensors that travel
//! together. Costs one look if nothing records.

use std::sync::Arc;

use super::Work;
use crate::timeline::{Activity, Timeline};

/// The part of an operation that is under way.
pub(super) struct Phases<'a> {
    timeline: &'a Timeline,
    names: Vec<Arc<str>>,
    open: bool,
}

impl<'a> Phases<'a> {
    pub(super) fn new(timeline: &'a Timeline, works: &[Work]) -> Self {
        let names = if timeline.is_recording() {
            works
                .iter()
                .map(|work| Arc::clone(&work.spec.name))
                .collect()
        } else {
            Vec::new()
        };
        Self {
            timeline,
            names,
            open: false,
        }
    }

    /// Ends the part that is under way, if there is one, and begins the next.
    pub(super) fn begin(&mut self, activity: Activity) {
        self.end();
        self.open = true;
        for name in &self.names {
            self.timeline.activity_start(name, activity);
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            for name in &self.names {
                self.timeline.activity_end(name);
            }
        }
    }
}

impl Drop for Phases<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
