//! One call of `init`: it either makes this process a member of the job, or is abandoned, never
//! both. An abandoned attempt is a failure, reported to the other ranks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hvd_types::Placement;

use crate::{Abort, Failure, Result};

/// One call of `init`, shared by the thread that called it and the one that joins the job.
#[derive(Debug, Default)]
pub struct InitAttempt {
    /// Ends every wait of the attempt, and later of the engine.
    pub abort: Abort,
    state: Mutex<AttemptState>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum AttemptState {
    #[default]
    Pending,
    Abandoned,
    Joined,
}

impl InitAttempt {
    /// The caller was interrupted and wants the result no more. Without effect on an attempt that
    /// has succeeded: this process is then a member of the job.
    pub fn abandon(&self, placement: &Placement) {
        let mut state = self.state();
        if *state != AttemptState::Pending {
            return;
        }
        *state = AttemptState::Abandoned;
        self.abort.raise(Failure {
            rank: placement.rank,
            host: placement.hostname.clone(),
            reason: "gave up its init(), which was interrupted".to_owned(),
        });
    }

    /// Lets the attempt succeed by calling `enter`, unless it was abandoned or some rank has
    /// failed.
    pub fn succeed(&self, enter: impl FnOnce()) -> Result<()> {
        let mut state = self.state();
        self.abort.check()?;
        *state = AttemptState::Joined;
        enter();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, AttemptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_succeeds_or_is_abandoned_but_not_both() {
        let (first, alone) = (InitAttempt::default(), Placement::alone());
        let mut entered = false;
        first.succeed(|| entered = true).unwrap();
        first.abandon(&alone);
        assert!(entered && first.abort.cause().is_none());
        let second = InitAttempt::default();
        second.abandon(&alone);
        let error = second.succeed(|| unreachable!()).unwrap_err().to_string();
        assert!(
            error.ends_with("gave up its init(), which was interrupted"),
            "{error}"
        );
    }
}
