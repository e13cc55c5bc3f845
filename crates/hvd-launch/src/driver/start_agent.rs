//! Gets the agent of one host: through `ssh` or a batch system's command (`by_starter.rs`), or not
//! at all, where agents were started beforehand and call the driver. Hands over the assignment;
//! what the agent then says is read by `fleet/agent_reader.rs`.

mod by_starter;
mod starter_process;

pub(crate) use starter_process::{StarterProcess, StarterStderr};

use std::{ffi::OsString, io, net::IpAddr};

use tokio::{
    io::AsyncWrite,
    time::{Duration, Instant},
};

use super::agent_port::{AgentIdentity, AgentPort};
use crate::{
    error::HostTrouble,
    link::{AgentLink, frame, split},
    process::Reaper,
    protocol::{ASSIGNMENT_LIMIT, AgentNotice, Assignment, Opening},
    spec::RemoteOptions,
};

/// A host's agent, connected.
pub(crate) struct StartedAgent {
    pub(crate) link: LinkToAgent,
    /// None for an agent that was started beforehand.
    pub(crate) starter: Option<StarterProcess>,
    /// When the agent got its assignment.
    pub(crate) assigned: Instant,
    /// From the call to the first word of the agent.
    pub(crate) latency: Duration,
}

/// A link to an agent.
pub(crate) type LinkToAgent = AgentLink<AgentNotice, Opening>;

/// How to reach one host, and what its agent is to do.
pub(crate) struct AgentStart {
    pub(crate) assignment: Assignment,
    /// The host as the starter wants it, for `ssh` with a user if one was given.
    pub(crate) target: String,
    /// What its name leads to.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) options: RemoteOptions,
    /// The environment of a starter that passes its own on.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// What the starter has said so far.
    pub(crate) stderr: StarterStderr,
}

impl AgentStart {
    /// Starts the agent and connects with it.
    pub(crate) async fn start(
        &self,
        reaper: &Reaper,
        port: &AgentPort,
    ) -> Result<StartedAgent, HostTrouble> {
        if port.accepts_calls() {
            return self.await_call(port).await;
        }
        self.start_by_starter(reaper, port).await
    }

    /// Waits for an agent that connects by itself, and sends its assignment.
    async fn await_call(&self, port: &AgentPort) -> Result<StartedAgent, HostTrouble> {
        let began = Instant::now();
        let identity = AgentIdentity {
            name: self.assignment.name.clone(),
            addresses: self.addresses.clone(),
        };
        let gone = || {
            let what = format!("the agent of host `{}` has gone again", self.target);
            self.trouble(what, "look at what it printed there".to_owned())
        };
        let stream = port.expect(self.assignment.host, identity).await;
        let stream = stream.map_err(|_| gone())?;
        let (reader, mut writer) = split(stream).map_err(|_| gone())?;
        self.assign(&mut writer).await.map_err(|_| gone())?;
        Ok(StartedAgent {
            link: AgentLink::start(reader, writer),
            starter: None,
            assigned: Instant::now(),
            latency: began.elapsed(),
        })
    }

    /// Hands over the assignment.
    async fn assign(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let assignment = serde_json::to_vec(&self.assignment).unwrap_or_default();
        frame::write(writer, &assignment, ASSIGNMENT_LIMIT).await
    }

    fn trouble(&self, what: String, remedy: String) -> HostTrouble {
        HostTrouble {
            host: self.assignment.name.clone(),
            what,
            remedy,
        }
    }
}
