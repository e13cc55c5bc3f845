//! The system's ssh client as the way to another host: its command line ([`command()`]) and its
//! refusals in plain words ([`explain()`]). Pure functions; the caller runs the client, with
//! `LC_ALL=C` so that its words are the ones known here.

mod command;
mod explain;
mod quote;
mod recognise;

pub use command::{
    AGENT_MISSING, HostKeys, KUBEXEC, SshOptions, by_hand, command, command_through,
};
pub use explain::{Cause, Explanation, explain};
pub use quote::quote;
