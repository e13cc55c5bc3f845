//! Where Python stands, read without the GIL: the rank may have a main thread that is stuck
//! in C code and holds it.
//!
//! Python's own `faulthandler` is registered for a real-time signal that is not in use, with a file
//! in memory to write to. The asking thread raises that signal on itself: the handler walks the
//! stacks of all Python threads in that thread, so no system call of the program is interrupted,
//! and needs no lock. It reads stacks that may be changing meanwhile, exactly as
//! `faulthandler.dump_traceback_later` does.
//!
//! - `STACK-1` the signal is raised only while its handler is the one that was registered: a program
//!   that takes the signal for itself is neither disturbed nor ended.
//! - `STACK-2` the handler writes only to our file: if the program has closed it, nothing is asked.
//! - `STACK-3` a forked child has neither.

mod os;
mod parse;

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError, TryLockError};

use hvd_engine::snapshot::ThreadStack;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::fs::{MemfdFlags, fstat, memfd_create};

use parse::CodeOrigins;

/// Of a longer dump the rest is not looked at: the main thread's stack may be the last of up to
/// a hundred, each of up to a hundred calls.
const LONGEST_DUMP: usize = 4 << 20;

/// What makes `faulthandler` tell us where Python stands.
#[derive(Debug)]
struct StackDumper {
    signal: i32,
    /// Address of the handler that was registered.
    handler: usize,
    file: File,
    /// Device and number of the file, in case its descriptor is closed behind our back.
    identity: (u64, u64),
    code: CodeOrigins,
}

static DUMPER: Mutex<Option<StackDumper>> = Mutex::new(None);

/// Makes stacks available from now on. A process in which that is not possible works without.
pub(crate) fn register(py: Python<'_>) {
    // Never held for long; a child forked while its parent was asked finds it locked for ever.
    let mut dumper = match DUMPER.try_lock() {
        Ok(dumper) => dumper,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    if dumper.is_some() {
        return;
    }
    match StackDumper::register(py) {
        Ok(registered) => *dumper = Some(registered),
        Err(error) => tracing::debug!("where Python stands cannot be told: {error}"),
    }
}

/// Undoes [`register`]; also called in a forked child, which must not wait for a lock.
pub(crate) fn unregister(py: Python<'_>) {
    let dumper = DUMPER.try_lock().ok().and_then(|mut dumper| dumper.take());
    if let Some(dumper) = dumper
        && dumper.is_ours()
        && let Err(error) =
            faulthandler(py).and_then(|it| it.call_method1("unregister", (dumper.signal,)))
    {
        tracing::debug!("cannot give signal {} back: {error}", dumper.signal);
    }
}

/// The stacks of all Python threads, the main thread's first; or why they are not known. Any
/// thread, with or without the GIL.
pub(crate) fn read() -> Result<Vec<ThreadStack>, &'static str> {
    let mut dumper = DUMPER.lock().unwrap_or_else(PoisonError::into_inner);
    let dumper = dumper
        .as_mut()
        .ok_or("Python's faulthandler is not registered")?;
    dumper.read()
}

fn faulthandler(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("faulthandler")
}

impl StackDumper {
    fn register(py: Python<'_>) -> PyResult<Self> {
        let no_signal = || pyo3::exceptions::PyOSError::new_err("every real-time signal is in use");
        let signal = os::unused_signal().ok_or_else(no_signal)?;
        let file = memfd_create("hvd-python-stack", MemfdFlags::CLOEXEC);
        let file = File::from(file.map_err(std::io::Error::from)?);
        let stat = fstat(&file).map_err(std::io::Error::from)?;
        let code = CodeOrigins::of_interpreter(py)?;
        let options = PyDict::new(py);
        options.set_item("file", file.as_raw_fd())?;
        options.set_item("all_threads", true)?;
        options.set_item("chain", false)?;
        faulthandler(py)?.call_method("register", (signal,), Some(&options))?;
        Ok(Self {
            signal,
            handler: os::handler(signal),
            file,
            identity: (stat.st_dev, stat.st_ino),
            code,
        })
    }

    fn is_ours(&self) -> bool {
        os::handler(self.signal) == self.handler
    }

    fn read(&mut self) -> Result<Vec<ThreadStack>, &'static str> {
        if !self.is_ours() {
            return Err("the program uses the signal that was meant for it");
        }
        let identity = fstat(&self.file).map(|stat| (stat.st_dev, stat.st_ino));
        if identity != Ok(self.identity) {
            return Err("the program has closed the file that was meant for it");
        }
        let lost = |_| "its file cannot be read";
        self.file.set_len(0).map_err(lost)?;
        self.file.seek(SeekFrom::Start(0)).map_err(lost)?;
        os::raise_here(self.signal);
        let length = self.file.metadata().map_err(lost)?.len();
        let length = usize::try_from(length).unwrap_or(LONGEST_DUMP);
        let mut dump = vec![0; length.min(LONGEST_DUMP)];
        self.file.read_exact_at(&mut dump, 0).map_err(lost)?;
        let threads = self.code.parse(&String::from_utf8_lossy(&dump));
        if threads.is_empty() {
            return Err("Python has told nothing");
        }
        Ok(threads)
    }
}
