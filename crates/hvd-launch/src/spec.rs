//! What is to be launched, fully checked: the value a command line, a Python call or a test hands
//! to [`crate::launch`]. Plain data; decides nothing.

use std::{ffi::OsString, net::IpAddr, path::PathBuf, time::Duration};

use hvd_rendezvous::AgentToken;
use hvd_types::Placement;

use crate::hosts::{
    Host, Starter,
    ssh::{self, SshOptions},
};
use crate::process::container::ContainerOptions;

/// One job: the command, where its ranks go, and how it is to be shown.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// The command and its arguments, started without a shell. Never empty, unless the hosts are
    /// only checked.
    pub command: Vec<String>,
    /// Where it runs, on every host.
    pub directory: PathBuf,
    /// What the ranks run in, if not on the hosts themselves.
    pub container: Option<ContainerOptions>,
    /// The hosts in the order in which they are filled.
    pub hosts: Vec<Host>,
    /// One entry per rank, in the order of ranks.
    pub placements: Vec<Placement>,
    /// How other hosts are reached.
    pub remote: RemoteOptions,
    /// The environment the launcher itself was started with.
    pub inherited: Vec<(OsString, OsString)>,
    /// Variables that options set; they beat the inherited ones.
    pub exports: Vec<(String, String)>,
    /// What happens to the workers' output.
    pub output: OutputOptions,
    /// Budget for everything before the workers run.
    pub start_timeout: Duration,
    /// How much the launcher says about its own doings.
    pub verbosity: Verbosity,
    /// Set when the command runs a Python function that travels through the key-value store.
    pub function: FunctionMode,
}

/// How other hosts are reached, and how their ranks reach each other.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// The batch job that the hosts come from, and the variable that gave their slots, in words.
    pub allocation: Option<String>,
    /// What starts agents there.
    pub starter: Starter,
    /// What the user said about ssh.
    pub ssh: SshOptions,
    /// The command that stands in for ssh, as Kubeflow sets it in `OMPI_MCA_plm_rsh_agent`.
    pub rsh_agent: Option<String>,
    /// Set if agents call by themselves and nothing starts them.
    pub agents: Option<AgentsOption>,
    /// The Python that runs here, tried first on other hosts.
    pub interpreter: String,
    /// Network interfaces to use, if not all.
    pub interfaces: Vec<String>,
    /// Addresses at which hosts want to be reached, by their names.
    pub advertised: Vec<(String, IpAddr)>,
    /// First and last of the ports that ranks may listen on.
    pub port_range: Option<(u16, u16)>,
}

impl RemoteOptions {
    /// What a person types in front of a command for a host; none where that is not known.
    pub(crate) fn by_hand(&self, target: &str) -> Option<String> {
        let is_known = self.agents.is_none() && self.rsh_agent.as_deref() != Some(ssh::KUBEXEC);
        is_known.then(|| self.starter.by_hand(&self.ssh, target))
    }

    /// Program and arguments that start an agent on a host; `interpreter` is the Python to try first.
    pub(crate) fn agent_command(&self, target: &str, interpreter: &str) -> Vec<OsString> {
        let rsh_agent = self.rsh_agent.as_deref();
        self.starter
            .command(rsh_agent, &self.ssh, target, interpreter)
    }
}

/// Where agents call that were started beforehand, and how they are recognised.
#[derive(Clone)]
pub struct AgentsOption {
    /// The port they call at.
    pub port: u16,
    /// The secret that they share with the driver.
    pub token: AgentToken,
}

impl std::fmt::Debug for AgentsOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentsOption")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// What happens to the workers' output, apart from going to the console.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// Directory that gets a file per rank and stream.
    pub directory: Option<PathBuf>,
    /// Whether lines carry the time.
    pub stamp: Stamp,
}

/// Whether forwarded lines carry the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stamp {
    /// Only rank and stream.
    #[default]
    Without,
    /// The local time in front of rank and stream.
    LocalTime,
}

/// For whom the report of `horovodrun doctor` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReportFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// How much the launcher says about its own doings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Only failures.
    #[default]
    Quiet,
    /// The plan, process ids, ends and times as well.
    Verbose,
}

/// How `horovod.run()` passes a function in and results out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FunctionMode {
    /// Whether standard input holds the function, to be stored for the workers.
    pub input: bool,
    /// The inherited pipe that gets the results of all ranks after a successful job.
    pub results: Option<i32>,
}

impl FunctionMode {
    /// Whether this job was started by a program that must not be outlived.
    pub(crate) fn is_used(self) -> bool {
        self.input || self.results.is_some()
    }
}
