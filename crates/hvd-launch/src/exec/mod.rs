//! From a checked job to its exit status: processes, their output, signals and their end.
//!
//! The process the user started becomes the *keeper* and forks the *driver*, which does the work
//! (`supervise.rs`). The driver (`driver.rs`) has the ranks of this host started (`crew.rs`,
//! `worker.rs`) and those of other hosts (`crate::remote`), lets the job take its course (`course.rs`
//! decides, `job.rs` acts), forwards output (`pipe.rs`, `output.rs`, `forward.rs`, `sink.rs`,
//! `console.rs`, `files.rs`) and leaves no process behind (`reaper.rs`, `tree.rs`). `os.rs` holds
//! every system call that has no safe wrapper. `doctor.rs` is the driver of `horovodrun doctor`.

mod ancestors;
mod aside;
mod console;
mod course;
mod crew;
mod doctor;
mod driver;
mod files;
mod forward;
mod function;
mod interrupts;
mod job;
mod os;
mod outlet;
mod output;
mod pipe;
mod progress;
mod reaper;
mod secret;
mod sink;
mod start;
mod supervise;
mod tail;
mod tree;
mod worker;

pub use ancestors::driver_above;
pub(crate) use aside::aside;
pub(crate) use course::{BlamedState, Outcome};
pub(crate) use crew::{Crew, RankEnd, RankOutput, RankTask};
pub(crate) use interrupts::Interrupts;
pub(crate) use os::before_exec;
pub(crate) use output::Stream;
pub(crate) use pipe::PipeReader;
pub(crate) use reaper::{Reaper, has_children};
pub(crate) use secret::KeyFile;
pub(crate) use start::{Narrator, StartClock};
pub use supervise::{examine, launch, serve_as_agent, serve_drivers};
