//! What one rank's engine thread records about operations in flight: in the flight recorder, which
//! is always on, and in the timeline, which only rank 0 may write.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use hvd_types::Rank;
use hvd_wire::{Operation, Response};

use crate::execute::Task;
use crate::local_set::LocalSet;
use crate::queue::QueueEntry;
use crate::recorder::{About, FlightEvent, FlightLog, OperationNumber, OperationState, Recorder};
use crate::timeline::Timeline;

/// Records of one engine thread.
#[derive(Debug)]
pub(crate) struct Observer {
    recorder: Recorder,
    pub(crate) timeline: Timeline,
    /// Where the flight recorder is written when the engine fails.
    dump_directory: Option<PathBuf>,
}

impl Observer {
    pub(crate) fn new(timeline: Timeline, dump_directory: Option<PathBuf>) -> Self {
        Self {
            recorder: Recorder::new(),
            timeline,
            dump_directory,
        }
    }

    /// The operations recorded so far and from now on, for other threads.
    pub(crate) fn flight_log(&self) -> FlightLog {
        FlightLog(self.recorder.history())
    }

    /// An entry was taken in and is announced to the coordinator.
    pub(crate) fn announced(&mut self, entry: &mut QueueEntry, now: Instant) {
        let request = &entry.request;
        let event = FlightEvent {
            name: &request.name,
            kind: request.kind,
            dtype: request.dtype,
            dimensions: request.shape.dimensions(),
            process_set: entry.process_set,
        };
        let number = self.recorder.record(&event, entry.submitted);
        self.recorder
            .advance(number, OperationState::Negotiating, now);
        entry.number = Some(number);
    }

    /// A response list came; all its operations but the first wait for their turn.
    pub(crate) fn queued(&self, set: &LocalSet, responses: &[Response]) {
        if !self.timeline.is_recording() {
            return;
        }
        let operations = responses.iter().filter_map(|response| match response {
            Response::Execute(operation) => Some(operation),
            Response::Refuse { .. } | Response::Joined { .. } => None,
        });
        for operation in operations.skip(1) {
            for name in set.names(operation) {
                self.timeline.operation_queued(&name, operation.kind);
            }
        }
    }

    /// An operation begins. What is returned goes to [`Self::ended`].
    pub(crate) fn begun(&mut self, operation: &Operation, tasks: &[Task]) -> Vec<BegunTask> {
        let now = Instant::now();
        let mut begun = Vec::with_capacity(tasks.len());
        for Task { spec, entry } in tasks {
            let number = entry.as_ref().and_then(|entry| entry.number);
            if let Some(number) = number {
                self.recorder
                    .advance(number, OperationState::Executing, now);
            }
            self.timeline.operation_start(&spec.name, operation.kind);
            let spec = Arc::clone(spec);
            begun.push(BegunTask { spec, number });
        }
        begun
    }

    /// An operation has ended.
    pub(crate) fn ended(&mut self, operation: &Operation, begun: Vec<BegunTask>, success: bool) {
        let (state, now) = (
            if success {
                OperationState::Done
            } else {
                OperationState::Failed
            },
            Instant::now(),
        );
        for BegunTask { spec, number } in begun {
            if let Some(number) = number {
                self.recorder.advance(number, state, now);
            }
            let result = success.then_some((operation.dtype, &spec.shape));
            self.timeline.operation_end(&spec.name, result);
        }
    }

    /// The ranks did not agree on a tensor.
    pub(crate) fn refused(&mut self, entry: &QueueEntry) {
        if let Some(number) = entry.number {
            self.recorder
                .advance(number, OperationState::Failed, Instant::now());
        }
        self.timeline.operation_refused(&entry.request.name);
    }

    /// Writes the flight recorder where it is wanted, because the engine failed.
    pub(crate) fn dump(&self, rank: Rank, host: &str, reason: &str) {
        let Some(directory) = &self.dump_directory else {
            return;
        };
        let about = About { rank, host, reason };
        match self.recorder.history().dump(directory, about) {
            Ok(path) => tracing::warn!(
                "wrote the last operations of this rank to {}",
                path.display()
            ),
            Err(error) => {
                tracing::error!(
                    "cannot write to HOROVOD_DUMP_DIR={}: {error}",
                    directory.display()
                );
            }
        }
    }
}

/// An operation that has begun, for the records at its end.
#[derive(Debug)]
pub(crate) struct BegunTask {
    spec: Arc<hvd_wire::TensorSpec>,
    number: Option<OperationNumber>,
}
