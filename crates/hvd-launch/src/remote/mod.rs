//! Ranks on other hosts.
//!
//! The driver starts one *agent* per host through `ssh` (`summon.rs`, `ssh/`); the agent (`agent.rs`)
//! starts and watches the host's ranks and speaks with the driver over one link (`crate::link`,
//! `message.rs`). `expedition.rs` gets all hosts ready; `fleet.rs` is all the driver knows of its
//! agents from then on.
//!
//! [`facts`] is what a host says about itself, [`probe`] tries addresses between hosts, `survey.rs`
//! has all hosts do so, [`findings`] compares the answers. `examination.rs` does all of that for
//! `horovodrun doctor`, and [`doctor`] shows what came of it.

mod agent;
mod back;
pub(crate) mod doctor;
mod examination;
mod expedition;
mod facts;
mod findings;
mod fleet;
mod interfaces;
mod message;
mod own_files;
mod probe;
mod resolve;
mod ssh;
mod stdio;
mod subprocess;
mod summon;
mod survey;
mod table;
mod text;
mod tunnel;

pub use agent::Calling;
pub(crate) use agent::{NOBODY, call as call_driver, serve as serve_agent};
pub(crate) use examination::Examination;
pub(crate) use expedition::Expedition;
pub(crate) use fleet::{Fleet, HostNews};
pub(crate) use message::{Notice, Secret, Urgency};
pub(crate) use resolve::{Resolved, resolve};
pub(crate) use ssh::quote;
pub use ssh::{HostKeys, SshOptions};
pub(crate) use summon::ssh_words;
