//! The text of `faulthandler` as stacks, and whose code each call is. Understands what Python 3.9
//! to 3.14 write:
//!
//! ```text
//! Thread 0x00007f... (most recent call first):            before 3.14, or without a name
//! Thread 0x00007f... [name] (most recent call first):     3.14
//! Current thread 0x00007f... [name] (most recent call first):
//!   File "train.py", line 42 in load_batch
//!   File "???", line ??? in ???
//!   Garbage-collecting | <no Python frame> | ... | <truncated rest of calls>
//! ```

use hvd_engine::snapshot::{Origin, StackFrame, ThreadStack};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Threads and calls that are kept; the innermost calls and the main thread always are.
const MOST_THREADS: usize = 32;
const MOST_FRAMES: usize = 64;

/// What belongs to whom in this interpreter.
#[derive(Debug, Default)]
pub(super) struct CodeOrigins {
    main_thread: u64,
    /// Where our Python files are.
    horovod: Vec<String>,
    /// Where the language's and installed packages' are.
    libraries: Vec<String>,
}

impl CodeOrigins {
    /// Asks the interpreter.
    pub(super) fn of_interpreter(py: Python<'_>) -> PyResult<Self> {
        let main = py.import("threading")?.call_method0("main_thread")?;
        let paths = py.import("sysconfig")?.call_method0("get_paths")?;
        let libraries = ["stdlib", "platstdlib", "purelib", "platlib"];
        let path = |name: &str| -> Option<String> {
            let path: String = paths
                .cast::<PyDict>()
                .ok()?
                .get_item(name)
                .ok()??
                .extract()
                .ok()?;
            Some(directory(&path))
        };
        let package = py.import("horovod")?.getattr("__path__")?;
        let horovod: Vec<String> = package
            .try_iter()?
            .flatten()
            .filter_map(|it| it.extract().ok())
            .collect();
        Ok(Self {
            main_thread: main.getattr("ident")?.extract()?,
            horovod: horovod.iter().map(|path| directory(path)).collect(),
            libraries: libraries.into_iter().filter_map(path).collect(),
        })
    }

    /// The stacks in a dump, the main thread's first.
    pub(super) fn parse(&self, dump: &str) -> Vec<ThreadStack> {
        let mut threads: Vec<(u64, ThreadStack)> = Vec::new();
        for line in dump.lines() {
            if let Some((identity, thread)) = head(line) {
                threads.push((identity, thread));
            } else if let (Some(frame), Some((_, thread))) = (self.frame(line), threads.last_mut())
                && thread.frames.len() < MOST_FRAMES
            {
                thread.frames.push(frame);
            }
        }
        let main = threads
            .iter()
            .position(|(identity, _)| *identity == self.main_thread);
        if let Some(index) = main {
            let (_, mut thread) = threads.remove(index);
            "MainThread".clone_into(&mut thread.name);
            threads.insert(0, (self.main_thread, thread));
        }
        let threads = threads.into_iter().map(|(_, thread)| thread);
        threads.take(MOST_THREADS).collect()
    }

    /// A call: `  File "<file>", line <line> in <function>`. Quotes in names are not escaped, so
    /// the file ends at the last place that looks like its end.
    fn frame(&self, line: &str) -> Option<StackFrame> {
        let rest = line.strip_prefix("  File ")?;
        let (file, rest) = rest.rsplit_once(", line ")?;
        let (number, function) = rest.split_once(" in ")?;
        let file = file.strip_prefix('"').unwrap_or(file);
        let file = file.strip_suffix('"').unwrap_or(file);
        Some(StackFrame {
            file: file.to_owned(),
            line: number.parse().unwrap_or(0),
            function: function.to_owned(),
            origin: self.origin(file),
        })
    }

    fn origin(&self, file: &str) -> Origin {
        let within = |directories: &[String]| directories.iter().any(|it| file.starts_with(it));
        let installed = ["/site-packages/", "/dist-packages/"];
        if within(&self.horovod) {
            Origin::Horovod
        } else if within(&self.libraries)
            || file.starts_with("<frozen ")
            || installed.iter().any(|name| file.contains(name))
        {
            Origin::Library
        } else {
            Origin::Program
        }
    }
}

/// A directory as the beginning of the paths of its files.
fn directory(path: &str) -> String {
    format!("{}/", path.trim_end_matches('/'))
}

/// The first line of a thread's stack: its number, and the thread.
fn head(line: &str) -> Option<(u64, ThreadStack)> {
    let rest = line
        .strip_prefix("Current thread ")
        .or_else(|| line.strip_prefix("Thread "))?;
    let rest = rest.strip_suffix(" (most recent call first):")?;
    let (number, name) = match rest.split_once(' ') {
        Some((number, name)) => (number, name.trim_start_matches('[').trim_end_matches(']')),
        None => (rest, ""),
    };
    let identity = u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()?;
    let name = if name.is_empty() {
        format!("thread {identity:#x}")
    } else {
        name.to_owned()
    };
    let frames = Vec::new();
    Some((identity, ThreadStack { name, frames }))
}

#[cfg(test)]
mod tests;
