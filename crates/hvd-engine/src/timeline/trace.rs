//! From what happened to trace events: the state of each tensor and the objects of the file.
//!
//! ```text
//! unknown --NegotiateStart--> negotiating --NegotiateEnd--> unknown
//! unknown --Queued--> queued --OperationStart--> operating
//! unknown --OperationStart--> operating --ActivityStart--> active --ActivityEnd--> operating
//!                             operating --OperationEnd--> unknown
//! ```
//!
//! An end without its beginning is dropped: the recording may have begun in between. A beginning
//! out of order closes first what is open: the end may have been lost to a full queue.
//!
//! Pure: events and their times in, text out. Must not know files or threads.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hvd_types::{DType, OpKind, Shape};

use super::event::{Happening, QUEUE, TimelineEvent, operation_label};
use super::file::Objects;
use super::json::push_string;

/// Between two objects of the file.
const SEPARATOR: &str = ",\n";

/// The objects of one file.
pub(super) struct Trace {
    started: Instant,
    tensors: HashMap<Arc<str>, TensorTrace>,
    /// Objects not yet taken.
    objects: Objects,
}

struct TensorTrace {
    pid: usize,
    state: TraceState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceState {
    Unknown,
    Negotiating,
    Queued,
    Operating,
    Active,
}

impl TraceState {
    /// How many events of a tensor in this state are open.
    const fn depth(self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Negotiating | Self::Operating => 1,
            Self::Queued | Self::Active => 2,
        }
    }
}

impl Trace {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            tensors: HashMap::new(),
            objects: Objects::default(),
        }
    }

    /// The objects with which a file begins.
    pub(super) fn opening(wall: SystemTime) -> String {
        let epoch = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        format!(
            "{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": \
             {{\"start_time_since_epoch_in_micros\": {}}}}}{SEPARATOR}{}",
            epoch.as_micros(),
            sort_index(0)
        )
    }

    /// Takes in an event.
    pub(super) fn add(&mut self, event: &TimelineEvent) {
        match event {
            TimelineEvent::Cycle(when) => {
                let ts = self.micros(*when);
                self.push(format_args!(
                    "{{\"ph\": \"i\", \"name\": \"CYCLE_START\", \"ts\": {ts}, \"s\": \"g\"}}"
                ));
            }
            TimelineEvent::Tensor(when, name, happening) => {
                let ts = self.micros(*when);
                self.happen(name, ts, happening);
            }
        }
    }

    /// Adds an event that says that others were lost.
    pub(super) fn note_dropped(&mut self, count: u64, when: Instant) {
        let ts = self.micros(when);
        self.push(format_args!(
            "{{\"ph\": \"i\", \"name\": \"DROPPED_EVENTS\", \"ts\": {ts}, \"s\": \"g\", \"args\": \
             {{\"count\": {count}}}}}"
        ));
    }

    /// Bytes of the objects not yet taken.
    pub(super) fn pending(&self) -> usize {
        self.objects.text.len()
    }

    /// The objects not yet taken.
    pub(super) fn take(&mut self) -> Objects {
        std::mem::take(&mut self.objects)
    }

    fn happen(&mut self, name: &Arc<str>, ts: u128, happening: &Happening) {
        let TensorTrace { pid, state } = *self.tensor(name);
        let next = match (state, happening) {
            (TraceState::Negotiating, Happening::NegotiateStart(_)) => return,
            (_, Happening::NegotiateStart(kind)) => self.negotiate(pid, state, ts, *kind),
            (TraceState::Negotiating, Happening::RankReady(rank)) => {
                self.push(format_args!(
                    "{{\"ph\": \"X\", \"name\": \"{rank}\", \"ts\": {ts}, \"pid\": {pid}, \
                     \"dur\": 0}}"
                ));
                state
            }
            (TraceState::Negotiating, Happening::NegotiateEnd) => self.close(pid, state, ts),
            (_, Happening::Queued(kind)) => {
                self.operate(pid, state, ts, operation_label(*kind));
                self.begin(pid, ts, QUEUE);
                TraceState::Queued
            }
            (TraceState::Queued, Happening::OperationStart(_))
            | (TraceState::Active, Happening::ActivityEnd) => {
                self.end(pid, ts, None);
                TraceState::Operating
            }
            (_, Happening::OperationStart(kind)) => {
                self.operate(pid, state, ts, operation_label(*kind))
            }
            (_, Happening::Refused) => {
                let state = self.operate(pid, state, ts, "ERROR");
                self.close(pid, state, ts)
            }
            (TraceState::Operating, Happening::ActivityStart(activity)) => {
                self.begin(pid, ts, activity.label());
                TraceState::Active
            }
            (TraceState::Active, Happening::ActivityStart(activity)) => {
                self.end(pid, ts, None);
                self.begin(pid, ts, activity.label());
                TraceState::Active
            }
            (TraceState::Operating | TraceState::Active, Happening::OperationEnd(result)) => {
                self.finish(pid, state, ts, result.as_ref())
            }
            _ => return,
        };
        self.tensor(name).state = next;
    }

    fn negotiate(&mut self, pid: usize, state: TraceState, ts: u128, kind: OpKind) -> TraceState {
        self.close(pid, state, ts);
        let operation = operation_label(kind);
        self.push(format_args!(
            "{{\"ph\": \"B\", \"name\": \"NEGOTIATE_{operation}\", \"ts\": {ts}, \"pid\": {pid}}}"
        ));
        TraceState::Negotiating
    }

    fn operate(&mut self, pid: usize, state: TraceState, ts: u128, label: &str) -> TraceState {
        self.close(pid, state, ts);
        self.begin(pid, ts, label);
        TraceState::Operating
    }

    fn finish(
        &mut self,
        pid: usize,
        state: TraceState,
        ts: u128,
        result: Option<&(DType, Shape)>,
    ) -> TraceState {
        if state == TraceState::Active {
            self.end(pid, ts, None);
        }
        self.end(pid, ts, result);
        TraceState::Unknown
    }

    /// Ends all that is open.
    fn close(&mut self, pid: usize, state: TraceState, ts: u128) -> TraceState {
        for _ in 0..state.depth() {
            self.end(pid, ts, None);
        }
        TraceState::Unknown
    }

    fn begin(&mut self, pid: usize, ts: u128, label: &str) {
        self.push(format_args!(
            "{{\"ph\": \"B\", \"name\": \"{label}\", \"ts\": {ts}, \"pid\": {pid}}}"
        ));
    }

    fn end(&mut self, pid: usize, ts: u128, result: Option<&(DType, Shape)>) {
        match result {
            None => self.push(format_args!(
                "{{\"ph\": \"E\", \"ts\": {ts}, \"pid\": {pid}}}"
            )),
            Some((dtype, shape)) => self.push(format_args!(
                "{{\"ph\": \"E\", \"ts\": {ts}, \"pid\": {pid}, \"args\": \
                 {{\"dtype\": \"{dtype}\", \"shape\": \"{shape}\"}}}}"
            )),
        }
    }

    /// The tensor of a name, introduced in the file at its first appearance.
    fn tensor(&mut self, name: &Arc<str>) -> &mut TensorTrace {
        let pid = self.tensors.len() + 1;
        let objects = &mut self.objects;
        self.tensors.entry(Arc::clone(name)).or_insert_with(|| {
            introduce(objects, pid, name);
            TensorTrace {
                pid,
                state: TraceState::Unknown,
            }
        })
    }

    fn push(&mut self, object: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = write!(self.objects.text, "{SEPARATOR}{object}");
        self.objects.ends.push(self.objects.text.len());
    }

    fn micros(&self, when: Instant) -> u128 {
        when.saturating_duration_since(self.started).as_micros()
    }
}

fn introduce(Objects { text, ends }: &mut Objects, pid: usize, name: &str) {
    let _ = write!(
        text,
        "{SEPARATOR}{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": {pid}, \"args\": \
         {{\"name\": "
    );
    push_string(text, name);
    text.push_str("}}");
    ends.push(text.len());
    let _ = write!(text, "{SEPARATOR}{}", sort_index(pid));
    ends.push(text.len());
}

fn sort_index(pid: usize) -> String {
    format!(
        "{{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": {pid}, \"args\": \
         {{\"sort_index\": {pid}}}}}"
    )
}
