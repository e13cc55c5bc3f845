//! Asking a running job how it stands: `horovodrun debug`.
//!
//! The driver of every job listens at a socket in a directory that only its user can enter
//! (`socket_dir.rs`, `responder.rs`); in a job that another launcher has started, rank 0 does
//! (`debug_thread.rs`). A client that asks there (`client.rs`) gets a description of
//! the job (`description.rs`) and what the ranks say, which the driver has from rank 0 through the
//! store. What the driver itself knows of the ranks is in `roster.rs`.

mod client;
mod debug_thread;
mod description;
mod responder;
mod roster;
mod socket_dir;

pub use client::{DebugClient, JobStatus, find_jobs, unusable_directories};
pub use debug_thread::DebugThread;
pub use description::{JobDescription, JobRank};
pub use hvd_wire::snapshot;
pub(crate) use responder::{DebugEndpoint, remove_endpoint};
pub use roster::RankState;
pub(crate) use roster::Roster;

/// One byte of a caller: who are you?
const DESCRIBE: u8 = b'd';
/// One byte of a caller: how do you stand?
const STATUS: u8 = b'a';
