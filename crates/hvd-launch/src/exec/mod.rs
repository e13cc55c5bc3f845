//! From a checked job to its exit status: processes, their output, signals and their end.
//!
//! The process the user started becomes the *keeper* and forks the *driver*, which does the work
//! (`supervise.rs`). The driver (`driver.rs`) starts the workers (`worker.rs`), lets the job take its
//! course (`course.rs` decides, `job.rs` acts), forwards output (`output.rs`, `forward.rs`, `sink.rs`,
//! `console.rs`, `files.rs`) and leaves no process behind (`tree.rs`). `os.rs` holds every system
//! call that has no safe wrapper.

mod console;
mod course;
mod driver;
mod files;
mod forward;
mod function;
mod interrupts;
mod job;
mod os;
mod output;
mod sink;
mod start;
mod supervise;
mod tail;
mod tree;
mod worker;

pub(crate) use course::Outcome;
pub use supervise::launch;
