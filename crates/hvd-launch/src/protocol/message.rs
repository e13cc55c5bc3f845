//! What the driver and the agent of a host say to each other, in order of appearance.
//!
//! ```text
//! agent   greeting line on standard output, with its version
//! driver  Assignment, on standard input: all secrets and the whole environment
//! agent   "tcp" or "stdio" on standard output: where the link is
//!         ---- from here on over the link ----
//! agent   Hello, with what it knows of its host
//! driver  Look                       agent   Looked            both for the doctor only
//! driver  Probe                      agent   Probed, for every address
//! driver  Load                       agent   Loaded            both for the doctor only
//! driver  Start
//! agent   Started, or Failed
//! agent   channels for output, and for connections of its ranks to the store
//! agent   Ended, for every rank      driver  End, if the job has to end
//! agent   Gone, when no process is left
//! ```
//!
//! An agent that was started beforehand connects, proves that it knows the token, sends its
//! [`Introduction`] and gets its assignment, with a number in place of the job's key, over the same
//! connection, which then is the link.

use std::{ffi::OsString, net::IpAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    hosts::{
        facts::{Extra, HostFacts},
        probe::{ProbeFailure, ProbeTarget},
    },
    process::{ProcessExit, Stream, container::ContainerOptions},
};

/// How the agent's first line begins; its version follows. Whatever a login shell prints comes
/// before it.
pub(crate) const GREETING: &str = "horovod-agent ";

/// Said by an agent that has reached the driver: the link is a connection of its own.
pub(crate) const LINK_OVER_TCP: &str = "tcp";

/// Said by an agent that has not: the link is its standard input and output.
pub(crate) const LINK_OVER_STDIO: &str = "stdio";

/// Said by the driver on the connection that it takes.
pub(crate) const TAKEN: u8 = 1;

/// The most bytes an assignment may have.
pub(crate) const ASSIGNMENT_LIMIT: usize = 64 << 20;

/// The most bytes an introduction may have.
pub(crate) const INTRODUCTION_LIMIT: usize = 4096;

/// What one host has to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// Version of the driver, which has to be the agent's own.
    pub(crate) version: String,
    /// Number of this host in the job.
    pub(crate) host: u32,
    /// Name of this host in the job.
    pub(crate) name: String,
    /// How to come by the job's key.
    pub(crate) secret: Secret,
    /// Where the driver may be reached.
    pub(crate) driver: Vec<IpAddr>,
    /// The port there.
    pub(crate) driver_port: u16,
    /// The command and its arguments.
    pub(crate) command: Vec<String>,
    /// Where it is to run.
    pub(crate) directory: PathBuf,
    /// What it runs in, if not on the host itself.
    pub(crate) container: Option<ContainerOptions>,
    /// What of the driver's environment is passed on.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// First and last of the ports that may be listened on, if not any.
    pub(crate) port_range: Option<(u16, u16)>,
    /// The ranks of this host.
    pub(crate) ranks: Vec<RankAssignment>,
}

/// How an agent comes by the job's key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Secret {
    /// The key itself in hexadecimal: only over ssh.
    Key(String),
    /// A number from which the key follows for an agent that knows the token.
    Nonce(Vec<u8>),
}

/// How an agent that was started beforehand introduces itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Introduction {
    pub(crate) version: String,
    /// The host's own name, or the one it was given.
    pub(crate) name: String,
}

/// One rank of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RankAssignment {
    pub(crate) rank: u32,
    /// Variables of this rank alone.
    pub(crate) variables: Vec<(String, String)>,
}

/// From the driver to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum AgentOrder {
    /// Ask the programs of the host what they know of it.
    Look,
    /// Try these addresses.
    Probe(Vec<ProbeTarget>),
    /// Measure how much gets through to this address.
    Load(ProbeTarget),
    /// Start the ranks, with these variables besides.
    Start { variables: Vec<(String, String)> },
    /// End the ranks.
    End(Urgency),
}

/// How to end the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Urgency {
    /// Ask them.
    Ask,
    /// Do not ask them.
    Kill,
}

/// From an agent to the driver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum AgentNotice {
    /// The agent is there; where others may probe its host, and what it knows of it.
    Hello {
        probe_port: u16,
        facts: Box<HostFacts>,
    },
    /// What the programs of the host say.
    Looked { extra: Box<Extra> },
    /// The answer of one address, or why there is none.
    Probed {
        target: ProbeTarget,
        result: Result<Duration, ProbeFailure>,
    },
    /// How many bytes per second got through to an address, or why none did.
    Loaded {
        target: ProbeTarget,
        result: Result<f64, ProbeFailure>,
    },
    /// The ranks run; their process numbers.
    Started { pids: Vec<(u32, i32)> },
    /// The ranks could not be started.
    Failed { code: i32, problem: String },
    /// A signal ends the agent; its ranks end with it.
    Leaving { why: String },
    /// A rank has ended.
    Ended { rank: u32, outcome: ProcessExit },
    /// No process of the job is left on this host.
    Gone,
}

/// What an agent opens a channel for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Opening {
    /// A stream of a rank, to the driver only.
    Output { rank: u32, stream: Stream },
    /// A connection to the job's key-value store.
    Store,
}
