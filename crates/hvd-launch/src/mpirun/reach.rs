//! Tries `ssh` to every other host before `mpirun` does. A refusal is explained in plain words, and
//! the key of a host that was never seen is remembered, because `mpirun`'s own `ssh` would ask.
//! Inside an allocation `mpirun` starts its daemons without `ssh`, and nothing is tried.

use std::{
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    process::{Command, Stdio},
};

use rustix::process::{Resource, getpid, getrlimit};
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, sync::oneshot, task::JoinSet};

use crate::{
    error::{Error, HostTrouble, Result},
    hosts::{
        resolve,
        ssh::{self, SshOptions, own_files},
    },
    process::{ProcessExit, Reaper, before_exec},
    spec::JobSpec,
};

/// Set inside an allocation of Slurm, PBS or Torque, LSF, and SGE.
const ALLOCATIONS: [&str; 4] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE"];

/// The most that is read of what `ssh` says.
const SAID_LIMIT: u64 = 16 << 10;

/// Returns once every other host has let us in.
pub(super) async fn check(spec: &JobSpec, reaper: &Reaper) -> Result<()> {
    if spec.remote.rsh_agent.is_some() || is_in_allocation(&spec.inherited) {
        return Ok(());
    }
    let used: Vec<_> = spec.hosts.iter().filter(|host| host.slots > 0).collect();
    let names: Vec<String> = used.iter().map(|host| host.hostname().to_owned()).collect();
    let resolved = resolve(&names).await?;
    let mut visits = JoinSet::new();
    for (host, resolved) in used.iter().zip(resolved) {
        if !resolved.is_local {
            let visit = Visit {
                host: host.name.clone(),
                options: spec.remote.ssh.for_addresses(resolved.addresses.len()),
                interpreter: spec.remote.interpreter.clone(),
                reaper: reaper.clone(),
            };
            visits.spawn(visit.try_it());
        }
    }
    let outcomes = visits.join_all().await;
    let mut troubles: Vec<HostTrouble> = outcomes.into_iter().flatten().collect();
    troubles.sort_unstable_by(|one, other| one.host.cmp(&other.host));
    if troubles.is_empty() {
        return Ok(());
    }
    Err(Error::Hosts { troubles })
}

fn is_in_allocation(inherited: &[(OsString, OsString)]) -> bool {
    inherited
        .iter()
        .any(|(variable, _)| ALLOCATIONS.iter().any(|name| variable == name))
}

/// One `ssh` to one host.
struct Visit {
    host: String,
    options: SshOptions,
    interpreter: String,
    reaper: Reaper,
}

impl Visit {
    /// What is wrong with the host, if anything is.
    async fn try_it(self) -> Option<HostTrouble> {
        let (exit, said) = match self.run().await {
            Ok((ProcessExit::Exited(0), _)) => return None,
            Ok((exit, said)) => (Some(exit.status()), said),
            Err(error) => (None, error.to_string()),
        };
        let cause = ssh::recognise(exit, &said, "");
        let (options, host) = (&self.options, self.host.as_str());
        let own = own_files::find(cause, options, host, &self.interpreter, &self.reaper).await;
        let explained = ssh::explain(host, options, exit, &said, "", &own);
        Some(HostTrouble {
            host: self.host,
            what: explained.what,
            remedy: explained.remedy,
        })
    }

    /// How `ssh` ends, and what it says on stderr.
    async fn run(&self) -> io::Result<(ProcessExit, String)> {
        let words = ssh::command_for(&self.options, &self.host, "true");
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let open_files = getrlimit(Resource::Nofile);
        before_exec(&mut command, getpid(), open_files);
        let (sender, end) = oneshot::channel();
        let on_end = move |exit| {
            let _ = sender.send(exit);
        };
        let mut child = self.reaper.spawn(&mut command, on_end)?;
        let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = Receiver::from_owned_fd(OwnedFd::from(stderr))?;
        let mut said = Vec::new();
        stderr.take(SAID_LIMIT).read_to_end(&mut said).await?;
        let exit = end.await.map_err(io::Error::other)?;
        Ok((exit, String::from_utf8_lossy(&said).into_owned()))
    }
}
