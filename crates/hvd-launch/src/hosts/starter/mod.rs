//! What starts an agent on another host: `ssh`, or a batch system's own command, which needs no
//! ssh and gives the agent the resources of the job; one file each. Composes command lines and
//! explains refusals; starts nothing. The process is `driver/start_agent/starter_process.rs`'s.
//!
//! Each of them connects standard input and output with the agent's: the assignment, with the
//! job's key, travels there and never on a command line. `pbsdsh` has no standard input, so PBS
//! jobs use ssh.

mod blaunch;
mod explain;
mod qrsh;
mod srun;

use std::ffi::{OsStr, OsString};

use super::{
    allocation::Scheduler,
    ssh::{self, SshOptions},
};

pub(crate) use explain::{Attempt, explain, waits_for};

/// What starts agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Starter {
    /// OpenSSH, or Kubeflow's stand-in for it.
    #[default]
    Ssh,
    /// Slurm's `srun`: one step for each host.
    Srun,
    /// LSF's `blaunch`.
    Blaunch,
    /// Grid Engine's `qrsh -inherit`.
    Qrsh,
}

impl Starter {
    /// The one of a batch system.
    pub fn of(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::Slurm => Self::Srun,
            Scheduler::Lsf => Self::Blaunch,
            Scheduler::Sge => Self::Qrsh,
            Scheduler::Pbs => Self::Ssh,
        }
    }

    /// The program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::Srun => "srun",
            Self::Blaunch => "blaunch",
            Self::Qrsh => "qrsh",
        }
    }

    /// Where the program comes from if it is missing.
    pub(crate) fn remedy_if_missing(self) -> &'static str {
        match self {
            Self::Ssh => "install an ssh client here, e.g. `apt-get install openssh-client`",
            Self::Srun => {
                "have Slurm's commands on PATH, e.g. by `module load slurm`, or add `--launcher ssh`"
            }
            Self::Blaunch => {
                "have LSF's commands on PATH, e.g. by its `profile.lsf`, or add `--launcher ssh`"
            }
            Self::Qrsh => {
                "have Grid Engine's commands on PATH, e.g. by its `settings.sh`, or add \
                 `--launcher ssh`"
            }
        }
    }

    /// Whether it passes the environment of its own process on, node by node corrected; others
    /// need it in the assignment.
    pub(crate) fn passes_environment(self) -> bool {
        self == Self::Srun
    }

    /// Whether a variable would change what it does, and is not for the agent.
    pub(crate) fn is_misled_by(self, variable: &OsStr) -> bool {
        self == Self::Srun && srun::is_input(variable)
    }

    /// What a person types in front of a command for another host.
    pub(crate) fn by_hand(self, options: &SshOptions, host: &str) -> String {
        match self {
            Self::Ssh => ssh::by_hand(options, host),
            Self::Srun => srun::by_hand(host),
            Self::Blaunch => format!("blaunch {}", ssh::quote(host)),
            Self::Qrsh => format!("qrsh -inherit {}", ssh::quote(host)),
        }
    }

    /// Program and arguments that start an agent; `interpreter` is the Python to try first.
    pub(crate) fn command(
        self,
        rsh_agent: Option<&str>,
        options: &SshOptions,
        host: &str,
        interpreter: &str,
    ) -> Vec<OsString> {
        match self {
            Self::Ssh => ssh::command_through(rsh_agent, options, host, interpreter),
            Self::Srun => srun::command(host, interpreter),
            Self::Blaunch => blaunch::command(host, interpreter),
            Self::Qrsh => qrsh::command(host, interpreter),
        }
    }
}

/// Program and arguments as the system wants them.
fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(starter: Starter) -> String {
        let options = SshOptions {
            port: None,
            identity: None,
            host_keys: ssh::HostKeys::AcceptNew,
            connect_timeout: std::time::Duration::from_secs(8),
        };
        let words = starter.command(None, &options, "n2", "/opt/python");
        let words: Vec<String> = words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn srun_takes_one_task_on_the_host_with_all_of_its_resources() {
        let line = line(Starter::Srun);
        let (options, script) = line.split_once(" /bin/sh -c ").unwrap();
        assert_eq!(
            options,
            "srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist=n2 --overlap --mem=0 \
             --mpi=none --cpu-bind=none --export=ALL --input=all --output=all --error=all"
        );
        assert!(script.starts_with("p=/opt/python; "), "{script}");
    }

    #[test]
    fn blaunch_and_qrsh_keep_standard_input() {
        let blaunch = line(Starter::Blaunch);
        assert!(blaunch.starts_with("blaunch -no-shell n2 /bin/sh -c p=/opt/python;"));
        let qrsh = line(Starter::Qrsh);
        assert!(
            qrsh.starts_with("qrsh -inherit -V n2 exec /bin/sh -c "),
            "{qrsh}"
        );
    }

    #[test]
    fn what_people_type_goes_to_the_same_host() {
        let options = SshOptions {
            port: Some(2222),
            identity: None,
            host_keys: ssh::HostKeys::AcceptNew,
            connect_timeout: std::time::Duration::from_secs(8),
        };
        let typed = |starter: Starter| starter.by_hand(&options, "n2");
        assert_eq!(typed(Starter::Ssh), "ssh -p 2222 n2");
        assert_eq!(typed(Starter::Srun), "srun --overlap -N1 -n1 --mem=0 -w n2");
        assert_eq!(typed(Starter::Blaunch), "blaunch n2");
        assert_eq!(typed(Starter::Qrsh), "qrsh -inherit n2");
    }

    #[test]
    fn requests_of_the_job_do_not_become_those_of_the_step() {
        for name in [
            "SLURM_GPUS",
            "SLURM_NTASKS_PER_NODE",
            "SLURM_MEM_PER_CPU",
            "SLURM_STDINMODE",
        ] {
            assert!(Starter::Srun.is_misled_by(name.as_ref()), "{name}");
            assert!(!Starter::Ssh.is_misled_by(name.as_ref()), "{name}");
        }
        for name in ["SLURM_JOB_ID", "SLURM_CONF", "SLURM_JOB_NODELIST", "PATH"] {
            assert!(!Starter::Srun.is_misled_by(name.as_ref()), "{name}");
        }
    }
}
