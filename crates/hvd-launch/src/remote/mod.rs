//! Ranks on other hosts.
//!
//! The driver starts one *agent* per host through `ssh` (`summon.rs`, `ssh/`); the agent (`agent.rs`)
//! starts and watches the host's ranks and speaks with the driver over one link (`crate::link`,
//! `message.rs`). `expedition.rs` gets all hosts ready; `fleet.rs` is all the driver knows of its
//! agents from then on.

mod agent;
mod back;
mod expedition;
mod fleet;
mod message;
mod resolve;
mod ssh;
mod stdio;
mod summon;
mod tunnel;

pub(crate) use agent::serve as serve_agent;
pub(crate) use expedition::Expedition;
pub(crate) use fleet::{Fleet, HostNews};
pub(crate) use message::{Notice, Urgency};
pub use ssh::{HostKeys, SshOptions};
