//! The stacks as Python's own `faulthandler` sees them, without the GIL. It is registered for an unused
//! real-time signal, with a file in memory to write to. The asking thread raises that signal on itself:
//! the handler walks the stacks of all Python threads in that thread, so no system call of the program
//! is interrupted, and needs no lock.
//!
//! - `STACK-1` the signal is raised only while its handler is the one that was registered: a program
//!   that takes the signal for itself is neither disturbed nor ended.
//! - `STACK-2` the handler writes only to our file: if the program has closed it, nothing is asked.
//! - `STACK-3` a forked child has neither.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::fs::{MemfdFlags, fstat, memfd_create};

use super::os;

/// Of a longer dump the rest is not looked at: the main thread's stack may be the last of up to
/// a hundred, each of up to a hundred calls.
const LONGEST_DUMP: usize = 4 << 20;

/// Has `faulthandler` write the stacks of all Python threads.
#[derive(Debug)]
pub(super) struct StackDumper {
    signal: i32,
    /// Address of the handler that was registered.
    handler: usize,
    file: File,
    /// Device and number of the file, in case its descriptor is closed behind our back.
    identity: (u64, u64),
}

fn faulthandler(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("faulthandler")
}

impl StackDumper {
    pub(super) fn register(py: Python<'_>) -> PyResult<Self> {
        let no_signal = || pyo3::exceptions::PyOSError::new_err("every real-time signal is in use");
        let signal = os::unused_signal().ok_or_else(no_signal)?;
        let file = memfd_create("hvd-python-stack", MemfdFlags::CLOEXEC);
        let file = File::from(file.map_err(std::io::Error::from)?);
        let stat = fstat(&file).map_err(std::io::Error::from)?;
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
        })
    }

    /// Gives the signal back.
    pub(super) fn unregister(self, py: Python<'_>) {
        if self.is_ours()
            && let Err(error) =
                faulthandler(py).and_then(|it| it.call_method1("unregister", (self.signal,)))
        {
            tracing::debug!("cannot give signal {} back: {error}", self.signal);
        }
    }

    fn is_ours(&self) -> bool {
        os::handler(self.signal) == self.handler
    }

    /// The stacks in the words of `faulthandler`, or why they are not known.
    pub(super) fn read(&mut self) -> Result<String, &'static str> {
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
        Ok(String::from_utf8_lossy(&dump).into_owned())
    }
}
