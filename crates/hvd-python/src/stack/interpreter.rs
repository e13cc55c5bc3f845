//! The stacks as the interpreter itself knows them: exact, because they are read with the GIL, which
//! stops every thread at a known place. A thread of its own waits for the GIL, so the thread that asks
//! can give up: if the GIL cannot be had, a thread is stuck with it in C code, and no stack changes.
//!
//! Does not know what a stack is for; the text is that of `faulthandler`.

use std::fmt::Write as _;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How long to wait for the GIL. A thread that runs Python gives it away every 5 ms.
const GIL_TIMEOUT: Duration = Duration::from_millis(250);

/// How many calls of a thread are told, as many as by `faulthandler`.
const MOST_CALLS: usize = 100;

/// The thread that reads stacks, until this is dropped.
#[derive(Debug)]
pub(super) struct InterpreterStacks {
    /// Where to send the answer; one at a time, so that nothing piles up behind a stuck GIL.
    requests: Option<SyncSender<SyncSender<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl InterpreterStacks {
    pub(super) fn start() -> Self {
        let (requests, received) = mpsc::sync_channel::<SyncSender<String>>(1);
        let work = move || {
            for answer in received {
                let dump = Python::attach(dump);
                // The thread that asked may have given up.
                let _ = answer.try_send(dump.unwrap_or_default());
            }
        };
        let thread = thread::Builder::new().name("hvd-stacks".to_owned());
        let thread = thread.spawn(work);
        let failed =
            |error| tracing::debug!("stacks of Python are read without the interpreter: {error}");
        Self {
            requests: Some(requests),
            thread: thread.map_err(failed).ok(),
        }
    }

    /// The stacks of all Python threads; none if the GIL cannot be had.
    pub(super) fn read(&self) -> Option<String> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.requests.as_ref()?.try_send(answer).ok()?;
        let dump = answered.recv_timeout(GIL_TIMEOUT).ok()?;
        (!dump.is_empty()).then_some(dump)
    }

    /// Ends the thread, which may be waiting for the GIL that the caller has.
    pub(super) fn end(mut self, py: Python<'_>) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            py.detach(|| thread.join()).ok();
        }
    }
}

fn dump(py: Python<'_>) -> PyResult<String> {
    let frames = py.import("sys")?.call_method0("_current_frames")?;
    let mut text = String::new();
    for (thread, frame) in frames.cast::<PyDict>()? {
        let identity: u64 = thread.extract()?;
        let _ = writeln!(text, "Thread {identity:#018x} (most recent call first):");
        let mut next = Some(frame);
        for _ in 0..MOST_CALLS {
            let Some(frame) = next.filter(|frame| !frame.is_none()) else {
                break;
            };
            let code = frame.getattr("f_code")?;
            let file: String = code.getattr("co_filename")?.extract()?;
            let function: String = code.getattr("co_name")?.extract()?;
            let line: Option<u32> = frame.getattr("f_lineno")?.extract()?;
            let line = line.unwrap_or_default();
            let _ = writeln!(text, "  File \"{file}\", line {line} in {function}");
            next = Some(frame.getattr("f_back")?);
        }
    }
    Ok(text)
}
