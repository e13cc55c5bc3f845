//! This process's place in the job, from joining to leaving, and what the others learn of its end.
//! Only an end that all ranks have agreed on is a goodbye. Whatever else ends a membership (an
//! engine that could not be started, a panic) is a failure of this rank: the others would wait for
//! it for ever.

use hvd_types::Placement;

use crate::{Failure, Lifeline};

/// A rank that the others count on. Dropping it fails the job; see [`Membership::leave`].
#[derive(Debug)]
pub struct Membership {
    placement: Placement,
    /// None in a job of one rank, and once this rank has left.
    lifeline: Option<Lifeline>,
}

impl Membership {
    /// The membership of the rank of this placement.
    pub fn new(placement: &Placement, lifeline: Option<Lifeline>) -> Self {
        Self {
            placement: placement.clone(),
            lifeline,
        }
    }

    /// What connects this rank with the others for reports of failures.
    pub fn lifeline(&self) -> Option<&Lifeline> {
        self.lifeline.as_ref()
    }

    /// Says goodbye. Only for an end that all ranks know of.
    pub fn leave(mut self) {
        self.lifeline = None;
    }

    /// Ends the membership, and the job, because of `reason`, which is the rest of a sentence that
    /// begins with the rank and its host.
    pub fn fail(mut self, reason: String) {
        self.end(reason);
    }

    fn end(&mut self, reason: String) {
        if let Some(lifeline) = self.lifeline.take() {
            lifeline.report(Failure {
                rank: self.placement.rank,
                host: self.placement.hostname.clone(),
                reason,
            });
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.end("left the job before all ranks had agreed to shut down".to_owned());
    }
}
