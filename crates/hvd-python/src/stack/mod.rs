//! The stacks of all Python threads. The [`interpreter`] itself is asked first, which needs the GIL; a
//! thread that is stuck in C code may hold that, and then [`faulthandler`] reads them without it.
//!
//! - `STACK-0` stacks are read without the GIL only after it could not be had: then no thread runs
//!   Python, and no stack changes. Ranks that reduced in a loop crashed after one to twelve such
//!   queries.

mod faulthandler;
mod interpreter;
mod os;
mod parse;

use std::sync::{Mutex, PoisonError, TryLockError};

use hvd_engine::snapshot::ThreadStack;
use pyo3::prelude::*;

use faulthandler::StackDumper;
use interpreter::InterpreterStacks;
use parse::CodeOrigins;

/// Both ways to the stacks.
#[derive(Debug)]
struct StackReader {
    code: CodeOrigins,
    interpreter: InterpreterStacks,
    without_gil: Option<StackDumper>,
}

static READER: Mutex<Option<StackReader>> = Mutex::new(None);

/// Makes stacks available from now on. A process in which that is not possible works without.
pub(crate) fn register(py: Python<'_>) {
    // No thread holds it for long; in a child forked during a query it stays locked for ever.
    let mut reader = match READER.try_lock() {
        Ok(reader) => reader,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    if reader.is_some() {
        return;
    }
    match StackReader::register(py) {
        Ok(registered) => *reader = Some(registered),
        Err(error) => tracing::debug!("stacks of Python are not available: {error}"),
    }
}

/// Undoes [`register`].
pub(crate) fn unregister(py: Python<'_>) {
    if let Some(interpreter) = take_back(py) {
        interpreter.end(py);
    }
}

/// The same in a forked child, which has none of its parent's threads and must not wait for a lock.
pub(crate) fn after_fork_in_child(py: Python<'_>) {
    #[expect(
        clippy::mem_forget,
        reason = "its thread does not exist here, so it can neither be joined nor detached"
    )]
    std::mem::forget(take_back(py));
}

fn take_back(py: Python<'_>) -> Option<InterpreterStacks> {
    let reader = READER.try_lock().ok()?.take()?;
    if let Some(dumper) = reader.without_gil {
        dumper.unregister(py);
    }
    Some(reader.interpreter)
}

/// The stacks of all Python threads, the main thread's first; or why they are not known. Any
/// thread, with or without the GIL.
pub(crate) fn read() -> Result<Vec<ThreadStack>, &'static str> {
    let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
    let reader = reader.as_mut().ok_or("it is being shut down")?;
    reader.read()
}

impl StackReader {
    fn register(py: Python<'_>) -> PyResult<Self> {
        let code = CodeOrigins::of_interpreter(py)?;
        let unavailable =
            |error| tracing::debug!("stacks of Python are known only with the GIL: {error}");
        Ok(Self {
            code,
            without_gil: StackDumper::register(py).map_err(unavailable).ok(),
            interpreter: InterpreterStacks::start(),
        })
    }

    fn read(&mut self) -> Result<Vec<ThreadStack>, &'static str> {
        let dump = if let Some(dump) = self.interpreter.read() {
            dump
        } else {
            // `STACK-0`
            let dumper = self.without_gil.as_mut();
            let dumper = dumper.ok_or("Python's faulthandler is not registered")?;
            dumper.read()?
        };
        let threads = self.code.parse(&dump);
        if threads.is_empty() {
            return Err("Python has told nothing");
        }
        Ok(threads)
    }
}
