//! The system's ssh client as the way to another host: its command line ([`command()`]) and its
//! refusals in plain words ([`explain()`]). Pure functions; the caller runs the client, with
//! `LC_ALL=C` so that its words are the ones known here.

mod command;
mod explain;
pub(crate) mod own_files;
mod quote;
mod recognise;

pub(crate) use command::{
    AGENT_MISSING, KUBEXEC, by_hand, command_for, command_through, run_there, script, shell_line,
};
pub use command::{HostKeys, SshOptions};
pub(crate) use explain::{explain, install};
pub(crate) use quote::quote;
pub(crate) use recognise::said;
pub(crate) use recognise::{SshFailure, recognise};
