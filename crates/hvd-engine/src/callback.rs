//! Operations completed by callback: no caller waits for them.
//!
//! For frameworks that schedule their own work and must not be blocked. The callback is called
//! exactly once, whatever happens: on the thread that carried the operation out, or, for one that
//! is refused, on the caller's. It must be short, and must not wait for another operation: no
//! other one goes on meanwhile.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::handle::{Completer, Completion, Continuation, OperationOutput};
use crate::queue::{BoxedEntry, QueueEntry};
use crate::submit::Submission;
use crate::{Error, Result};

impl Engine {
    /// Accepts an operation and calls `then` with its result.
    pub fn submit_with_callback(
        &self,
        submission: Submission,
        then: impl FnOnce(Result<OperationOutput>) + Send + 'static,
    ) {
        if let Some(entry) = self.entry(submission, Box::new(then)) {
            self.start_with_callback([entry]);
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
        if let Some(entries) = self.group_entries(name, submissions, Box::new(then)) {
            self.start_with_callback(entries);
        }
    }

    /// As [`Engine::submit_group_with_callback`], for a caller that can do nothing before they have
    /// ended: its thread runs the cycle, if no other thread does, for up to `limit`. A single
    /// operation is no group, and gets the name itself.
    pub fn work_with_callback(
        &self,
        name: &Arc<str>,
        mut submissions: Vec<Submission>,
        limit: Duration,
        then: impl FnOnce(Result<Vec<OperationOutput>>) + Send + 'static,
    ) {
        let ended = Arc::new(Completion::default());
        let mark = Arc::clone(&ended);
        let then = move |result| {
            then(result);
            mark.complete(Ok(OperationOutput::default()));
        };
        let accepted = if submissions.len() == 1 {
            submissions[0].name = Some(Arc::clone(name));
            let then = |result: Result<OperationOutput>| then(result.map(|output| vec![output]));
            let entry = submissions
                .pop()
                .and_then(|only| self.entry(only, Box::new(then)));
            entry.map(|entry| self.start_quietly([entry]))
        } else {
            let entries = self.group_entries(name, submissions, Box::new(then));
            entries.map(|entries| self.start_quietly(entries))
        };
        if accepted.is_some() {
            self.work_on(&ended, Instant::now() + limit);
        }
    }

    /// The entry of one operation; `None` if it was refused, which `then` has been told.
    fn entry(&self, mut submission: Submission, then: Continuation) -> Option<BoxedEntry> {
        match self.request(&mut submission) {
            Ok(request) => {
                let completer = Completer::continuing(then);
                Some(QueueEntry::new(request, submission, completer))
            }
            Err(error) => {
                then(Err(error));
                None
            }
        }
    }

    /// The entries of a group; `None` if it was refused or is empty, which `then` has been told.
    fn group_entries(
        &self,
        name: &Arc<str>,
        submissions: Vec<Submission>,
        then: Then,
    ) -> Option<Vec<BoxedEntry>> {
        let count = submissions.len();
        let group = Arc::new(CallbackGroup::new(count, then));
        let mut entries = Vec::with_capacity(count);
        for (index, mut submission) in submissions.into_iter().enumerate() {
            submission.enroll(name, index, count);
            let request = match self.request(&mut submission) {
                Ok(request) => request,
                Err(error) => {
                    // Before the entries so far are dropped, which completes the group as well.
                    group.refuse(error);
                    return None;
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
            return None;
        }
        Some(entries)
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
