//! The output of ranks on its way to the user, and the launcher's own lines. Runs in the driver.
//!
//! `pipe.rs` reads a rank's stream, `forward.rs` passes it on line by line (`prefixer.rs`) and
//! keeps its end (`tail.rs`). One thread (`console_thread.rs`) writes everything to the console
//! (`console.rs`) and to the files of `--output-filename` (`files.rs`); `outlet.rs` is one of those
//! destinations. `progress.rs` is the line on a terminal that shows what a start waits for.

mod console;
mod console_thread;
mod files;
mod forward;
mod outlet;
mod pipe;
mod prefixer;
mod progress;
mod tail;

pub(crate) use console_thread::{ConsoleSender, ConsoleThread, Written};
pub(crate) use files::OutputFiles;
pub(crate) use forward::{Forwarder, OutputSource};
pub(crate) use pipe::PipeReader;
pub(crate) use progress::ProgressLine;
