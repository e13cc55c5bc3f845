//! Processes of this machine: starting, signalling and reaping them, and what the kernel says about
//! them. Used by the supervisor, the driver and the agents alike; knows no host and no job.
//!
//! `worker.rs` starts one rank, `local_ranks.rs` all ranks of this machine, with the variables of
//! `environment.rs`, in the image of `container/` if there is one. `reaper.rs` sees them end, `tree.rs` finds what they started, `subprocess.rs`
//! runs other programs for their output. `os.rs` holds every system call that has no safe wrapper.

pub(crate) mod ancestors;
pub(crate) mod container;
mod detached;
mod environment;
mod exit;
mod interrupts;
pub(crate) mod key_file;
mod local_ranks;
pub(crate) mod os;
mod reaper;
mod stream;
pub(crate) mod subprocess;
mod sweep;
pub(crate) mod tree;
mod worker;

pub use ancestors::driver_above;
pub(crate) use detached::spawn_detached;
pub(crate) use environment::{
    StoreLocation, WorkerHost, environment, passed_on, rank_variables, store_variables,
};
pub(crate) use exit::ProcessExit;
pub(crate) use interrupts::Interrupts;
pub(crate) use key_file::KeyFile;
pub(crate) use local_ranks::{LocalRanks, RankCommand, RankEnd, RankOutput};
pub(crate) use os::{SignalSet, WallClock, before_exec, bind_to_parent, local_time};
pub(crate) use reaper::{Reaper, has_children};
pub(crate) use stream::Stream;
pub(crate) use subprocess::ReapedBy;
pub(crate) use sweep::sweep;
pub(crate) use worker::RankTask;
