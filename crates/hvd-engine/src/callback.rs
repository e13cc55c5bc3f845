//! Operations completed by callback: no caller waits for them.
//!
//! For frameworks that schedule their own work and must not be blocked. The callback is called
//! exactly once, whatever happens: on the thread that carried the operation out, or, for one that
//! is refused, on the caller's. It must be short, and must not wait for another operation: no
//! other one goes on meanwhile.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::Engine;
use crate::handle::{Completer, OperationOutput};
use crate::queue::QueueEntry;
use crate::submit::Submission;
use crate::{Error, Result};

impl Engine {
    /// Accepts an operation and calls `then` with its result.
    pub fn submit_with_callback(
        &self,
        mut submission: Submission,
        then: impl FnOnce(Result<OperationOutput>) + Send + 'static,
    ) {
        match self.request(&mut submission) {
            Ok(request) => {
                let completer = Completer::continuing(Box::new(then));
                self.start_with_callback([QueueEntry::new(request, submission, completer)]);
            }
            Err(error) => then(Err(error)),
        }
    }

    /// Accepts several operations, all or none of them, and calls `then` when the last one has
    /// ended: with all results, or with the error that came first. Members are named as by
    /// [`Engine::submit_group`].
    pub fn submit_group_with_callback(
        &self,
        name: &Arc<str>,
        submissions: Vec<Submission>,
        then: impl FnOnce(Result<Vec<OperationOutput>>) + Send + 'static,
    ) {
        let count = submissions.len();
        let group = Arc::new(CallbackGroup::new(count, Box::new(then)));
        let mut entries = Vec::with_capacity(count);
        for (index, mut submission) in submissions.into_iter().enumerate() {
            submission.enroll(name, index, count);
            let request = match self.request(&mut submission) {
                Ok(request) => request,
                Err(error) => {
                    // Before the entries so far are dropped, which completes the group as well.
                    group.refuse(error);
                    return;
                }
            };
            let member = Arc::clone(&group);
            let completer = Completer::continuing(Box::new(move |result| {
                member.ended(index, result);
            }));
            entries.push(QueueEntry::new(request, submission, completer));
        }
        if entries.is_empty() {
            group.finish(Ok(Vec::new()));
        } else {
            self.start_with_callback(entries);
        }
    }
}

/// What is to be done with the results of a group.
type Then = Box<dyn FnOnce(Result<Vec<OperationOutput>>) + Send>;

/// Collects the results of operations that were submitted together.
struct CallbackGroup(Mutex<Collected>);

struct Collected {
    outcomes: Vec<OperationOutput>,
    left: usize,
    error: Option<Error>,
    /// Taken when everything has ended.
    then: Option<Then>,
}

impl fmt::Debug for CallbackGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackGroup")
    }
}

impl CallbackGroup {
    fn new(count: usize, then: Then) -> Self {
        Self(Mutex::new(Collected {
            outcomes: vec![OperationOutput::default(); count],
            left: count,
            error: None,
            then: Some(then),
        }))
    }

    fn ended(&self, index: usize, result: Result<OperationOutput>) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(outcome) => collected.outcomes[index] = outcome,
            Err(error) => {
                collected.error.get_or_insert(error);
            }
        }
        collected.left = collected.left.saturating_sub(1);
        if collected.left > 0 {
            return;
        }
        let outcomes = std::mem::take(&mut collected.outcomes);
        let result = collected.error.take().map_or(Ok(outcomes), Err);
        drop(collected);
        self.finish(result);
    }

    /// Ends the group before any of it was started.
    fn refuse(&self, error: Error) {
        self.finish(Err(error));
    }

    fn finish(&self, result: Result<Vec<OperationOutput>>) {
        let then = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .then
            .take();
        if let Some(then) = then {
            then(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn group(count: usize) -> (CallbackGroup, mpsc::Receiver<Result<Vec<OperationOutput>>>) {
        let (sender, results) = mpsc::channel();
        let then = Box::new(move |result| sender.send(result).unwrap());
        (CallbackGroup::new(count, then), results)
    }

    fn numbered(number: u32) -> OperationOutput {
        OperationOutput {
            number: Some(number),
            ..OperationOutput::default()
        }
    }

    #[test]
    fn results_come_in_the_order_of_submission_after_the_last_one() {
        let (group, results) = group(2);
        group.ended(1, Ok(numbered(1)));
        assert!(results.try_recv().is_err());
        group.ended(0, Ok(numbered(0)));
        assert_eq!(
            results.try_recv().unwrap(),
            Ok(vec![numbered(0), numbered(1)])
        );
    }

    #[test]
    fn an_error_of_any_member_is_not_lost() {
        let (group, results) = group(2);
        group.ended(0, Err(Error::NotInitialized));
        group.ended(1, Ok(numbered(1)));
        assert_eq!(results.try_recv().unwrap(), Err(Error::NotInitialized));
    }

    #[test]
    fn a_refused_group_is_told_once_and_why() {
        let (group, results) = group(2);
        group.refuse(Error::NotInitialized);
        group.ended(0, Err(Error::ShutDown));
        group.ended(1, Err(Error::ShutDown));
        assert_eq!(results.try_recv().unwrap(), Err(Error::NotInitialized));
        assert!(results.try_recv().is_err());
    }
}
