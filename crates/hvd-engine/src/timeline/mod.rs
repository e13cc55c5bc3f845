//! The timeline: what happens to each tensor and when, as a file of Chrome trace events that
//! `chrome://tracing` and Perfetto open.
//!
//! ```text
//! engine thread --try_send--> bounded queue --> thread hvd-timeline: trace.rs --> file.rs
//! ```
//!
//! A [`Timeline`] is a cheap handle. While nothing records, an event costs one load and one branch;
//! while something does, a clock reading and a place in the queue. The engine never waits for the
//! file: if the queue is full, events are counted and lost. A file that cannot be written ends the
//! recording and nothing else.
//!
//! - `TRACE-1` the file is valid JSON after every write and in the middle of it, whatever happens to
//!   the process; `file.rs` describes how, and the one moment that is excepted.
//! - `TRACE-2` whatever events are lost, the begin and end events of a tensor nest properly.
//! - `TRACE-3` each recording has a complete file of its own: process numbers start over.

mod clock;
mod event;
mod file;
mod json;
mod trace;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hvd_types::{DType, OpKind, Shape};

use self::clock::{Clock, SystemClock};
pub(crate) use self::event::Activity;
use self::event::{Happening, TimelineEvent};
use self::writer::{TimelineSink, TimelineWriter};

/// Events that may wait for the writer. At some 60 bytes each, a few megabytes while recording;
/// enough for a second of the busiest job, and the writer keeps up with that.
const QUEUE_CAPACITY: usize = 1 << 16;

/// Whether the beginning of each cycle is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CycleMarks {
    Shown,
    Hidden,
}

/// Why a recording could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the timeline to `{}`: {source}; training goes on without it", path.display())]
pub(crate) struct StartError {
    path: PathBuf,
    source: io::Error,
}

/// A handle to the job's timeline; clones are the same timeline.
#[derive(Clone)]
pub(crate) struct Timeline {
    shared: Arc<TimelineState>,
}

struct TimelineState {
    clock: Box<dyn Clock>,
    /// Whether `sink` holds anything; read on the hot path before anything else.
    recording: AtomicBool,
    marks_cycles: AtomicBool,
    sink: Mutex<Option<TimelineSink>>,
    /// Held while a recording is started or stopped, so that two such calls take turns.
    writer: Mutex<Option<TimelineWriter>>,
}

impl Timeline {
    /// A timeline that records nothing yet.
    pub(crate) fn new() -> Self {
        Self::with_clock(Box::new(SystemClock))
    }

    fn with_clock(clock: Box<dyn Clock>) -> Self {
        let shared = TimelineState {
            clock,
            recording: AtomicBool::new(false),
            marks_cycles: AtomicBool::new(false),
            sink: Mutex::new(None),
            writer: Mutex::new(None),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Starts to record into a new file, from any thread. A recording into another file is
    /// completed first; one into the same file goes on as it is.
    pub(crate) fn start(&self, path: &Path, marks: CycleMarks) -> Result<(), StartError> {
        let mut writer = lock(&self.shared.writer);
        if self.is_recording() && writer.as_ref().is_some_and(|writer| writer.path() == path) {
            return Ok(());
        }
        self.shared.finish(&mut writer);
        let failed = |source| StartError {
            path: path.to_owned(),
            source,
        };
        let (new, sink) =
            TimelineWriter::start(path, &*self.shared.clock, QUEUE_CAPACITY).map_err(failed)?;
        *writer = Some(new);
        *lock(&self.shared.sink) = Some(sink);
        let shown = marks == CycleMarks::Shown;
        self.shared.marks_cycles.store(shown, Ordering::Relaxed);
        self.shared.recording.store(true, Ordering::Release);
        Ok(())
    }

    /// Stops recording and returns when the file is complete. Harmless if nothing records.
    pub(crate) fn stop(&self) {
        self.shared.finish(&mut lock(&self.shared.writer));
    }

    /// Whether events are being recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.shared.recording.load(Ordering::Relaxed)
    }

    /// Some rank has asked for a tensor. Only the first call of a negotiation counts.
    pub(crate) fn negotiate_start(&self, name: &Arc<str>, kind: OpKind) {
        self.record(name, Happening::NegotiateStart(kind));
    }

    /// A rank, by its number in the process set, has asked for a tensor.
    pub(crate) fn rank_ready(&self, name: &Arc<str>, rank: u32) {
        self.record(name, Happening::RankReady(rank));
    }

    /// All ranks have asked for a tensor.
    pub(crate) fn negotiate_end(&self, name: &Arc<str>) {
        self.record(name, Happening::NegotiateEnd);
    }

    /// What was agreed for a tensor waits for operations before it.
    pub(crate) fn operation_queued(&self, name: &Arc<str>, kind: OpKind) {
        self.record(name, Happening::Queued(kind));
    }

    /// What was agreed for a tensor begins.
    pub(crate) fn operation_start(&self, name: &Arc<str>, kind: OpKind) {
        self.record(name, Happening::OperationStart(kind));
    }

    /// The ranks did not agree on a tensor.
    pub(crate) fn operation_refused(&self, name: &Arc<str>) {
        self.record(name, Happening::Refused);
    }

    /// A part of a tensor's operation begins.
    pub(crate) fn activity_start(&self, name: &Arc<str>, activity: Activity) {
        self.record(name, Happening::ActivityStart(activity));
    }

    /// The part ends.
    pub(crate) fn activity_end(&self, name: &Arc<str>) {
        self.record(name, Happening::ActivityEnd);
    }

    /// A tensor's operation ends; with the result's type and shape if it succeeded.
    pub(crate) fn operation_end(&self, name: &Arc<str>, result: Option<(DType, &Shape)>) {
        if self.is_recording() {
            let result = result.map(|(dtype, shape)| (dtype, shape.clone()));
            self.record(name, Happening::OperationEnd(result));
        }
    }

    /// A cycle begins. Recorded only if marks were asked for.
    pub(crate) fn cycle_start(&self) {
        if self.is_recording() && self.shared.marks_cycles.load(Ordering::Relaxed) {
            self.shared
                .push(TimelineEvent::Cycle(self.shared.clock.now()));
        }
    }

    fn record(&self, name: &Arc<str>, happening: Happening) {
        if self.is_recording() {
            let name = Arc::clone(name);
            let when = self.shared.clock.now();
            self.shared
                .push(TimelineEvent::Tensor(when, name, happening));
        }
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl TimelineState {
    fn push(&self, event: TimelineEvent) {
        let mut sink = lock(&self.sink);
        let writer_is_gone = sink.as_ref().is_some_and(|sink| sink.push(event).is_err());
        if writer_is_gone {
            self.recording.store(false, Ordering::Relaxed);
            *sink = None;
        }
    }

    /// Completes the current recording, if there is one.
    fn finish(&self, writer: &mut Option<TimelineWriter>) {
        self.recording.store(false, Ordering::Relaxed);
        // Without its last sender the queue ends, and with it the writer.
        drop(lock(&self.sink).take());
        if let Some(writer) = writer.take() {
            writer.join();
        }
    }
}

impl Drop for TimelineState {
    fn drop(&mut self) {
        let mut writer = lock(&self.writer).take();
        self.finish(&mut writer);
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline")
            .field("recording", &self.is_recording())
            .finish_non_exhaustive()
    }
}

/// The data behind these locks are whole at every moment, also when a holder panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
#[cfg(test)]
mod tests;
