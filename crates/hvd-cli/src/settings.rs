//! What will happen: options and environment brought together, checked, and turned into the job
//! that `hvd-launch` runs. No clap types leave this file, and nothing is started here.

mod container;
mod job_hosts;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use hvd_config::{Environment, WorkerConfig, is_set_by_launcher, name};
use hvd_launch::{
    AgentsOption, FunctionMode, HostKeys, JobSpec, MpiOptions, OutputOptions, RemoteOptions,
    SshOptions, Stamp, Verbosity, hosts::Host,
};

use crate::{
    agent,
    args::{Args, Exports, HostArgs},
    config_file::ConfigFile,
    mpi,
};

pub(crate) use job_hosts::JobHosts;

/// Exit status of a mistake in the options.
pub(crate) const USAGE: i32 = 2;

/// Budget of a start if nothing else is said.
const START_TIMEOUT: u32 = 30;

/// Most that one ssh may take to connect. A host that is off is reported within ten seconds.
const SSH_TIMEOUT: Duration = Duration::from_secs(8);

/// Everything that was decided.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The job to launch.
    pub(crate) job: JobSpec,
    /// Set if another launcher starts its ranks.
    pub(crate) mpi: Option<MpiOptions>,
    /// The launcher's own log level, in upper case.
    pub(crate) log_level: String,
    /// What the user should know although the job starts.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Decides what will happen.
    ///
    /// # Errors
    /// Every mistake a user can make, with what would be right.
    pub(crate) fn resolve(
        args: Args,
        inherited: Vec<(OsString, OsString)>,
        interpreter: &str,
    ) -> Result<Self> {
        let texts = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        let texts: Vec<(String, String)> = inherited.iter().filter_map(texts).collect();
        let environment: Environment = texts.iter().cloned().collect();
        let file = config_file(&args)?;
        let mpi = mpi::options(&args, file.controller.as_deref())?;
        mpi::refuse_without_launcher(&environment, mpi.is_some())?;
        let hosts = if mpi::takes_allocated_hosts(&args) {
            JobHosts::left_to_jsrun()
        } else {
            JobHosts::choose(&args.hosts, &environment)?
        };
        check_advertised(&args.hosts, &hosts.hosts)?;
        ensure!(
            !args.command.is_empty(),
            "there is no command to run; put it last, e.g. `horovodrun -np 2 python train.py`"
        );
        let exports = exports(&args, file);
        check_workers(&texts, &exports)?;
        let log_level = log_level(&args, &exports, &environment);
        let warnings = warnings(&args, &exports, mpi.is_some());
        let start_timeout = start_timeout(&args.hosts, &environment)?;
        let directory = directory()?;
        let job = JobSpec {
            placements: hosts.place(&args.hosts)?,
            exports: exports
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            start_timeout,
            remote: remote(
                &args.hosts,
                &environment,
                interpreter,
                &hosts,
                start_timeout,
            )?,
            hosts: hosts.hosts,
            container: container::container(&args.container, &directory)?,
            directory,
            verbosity: verbosity(&args.hosts),
            output: output(&args),
            function: FunctionMode {
                input: args.function_stdin,
                results: args.results_fd,
            },
            command: args.command,
            inherited,
        };
        Ok(Self {
            job,
            mpi,
            log_level,
            warnings,
        })
    }
}

/// Where the command runs, on every host.
pub(crate) fn directory() -> Result<PathBuf> {
    std::env::current_dir().context("the working directory no longer exists")
}

/// How much the launcher says.
pub(crate) fn verbosity(args: &HostArgs) -> Verbosity {
    if args.verbose {
        Verbosity::Verbose
    } else {
        Verbosity::Quiet
    }
}

/// Addresses can only be advertised for hosts of the job.
pub(crate) fn check_advertised(args: &HostArgs, hosts: &[Host]) -> Result<()> {
    for (name, _) in &args.advertise {
        let names: Vec<&str> = hosts.iter().map(Host::hostname).collect();
        ensure!(
            names.contains(&name.as_str()),
            "--advertise names host `{name}`, which is not one of {}; write it as in `-H`",
            names.join(", ")
        );
    }
    Ok(())
}

fn output(args: &Args) -> OutputOptions {
    OutputOptions {
        directory: args.output_filename.clone(),
        stamp: if args.prefix_output_with_timestamp {
            Stamp::LocalTime
        } else {
            Stamp::Without
        },
    }
}

/// How other hosts are reached.
pub(crate) fn remote(
    args: &HostArgs,
    environment: &Environment,
    interpreter: &str,
    hosts: &JobHosts,
    start_timeout: Duration,
) -> Result<RemoteOptions> {
    let interfaces = args.network_interfaces.iter();
    let interfaces = interfaces
        .map(|name| name.trim())
        .filter(|name| !name.is_empty());
    let host_keys = match (args.ssh_strict, args.no_host_key_check) {
        (true, _) => HostKeys::Strict,
        (false, true) => HostKeys::Unchecked,
        (false, false) => HostKeys::AcceptNew,
    };
    let agents = match args.agents {
        Some(port) => Some(AgentsOption {
            port,
            token: agent::token(environment).map_err(anyhow::Error::msg)?,
        }),
        None => None,
    };
    Ok(RemoteOptions {
        agents,
        allocation: hosts.origin(),
        starter: hosts.starter(args, environment)?,
        ssh: SshOptions {
            port: args.ssh_port,
            identity: identity(args, environment)?,
            host_keys,
            // Before the budget is spent, so that it can say why.
            connect_timeout: start_timeout
                .saturating_sub(Duration::from_secs(1))
                .min(SSH_TIMEOUT),
        },
        interpreter: interpreter.to_owned(),
        rsh_agent: environment
            .text("OMPI_MCA_plm_rsh_agent")
            .map(str::to_owned),
        interfaces: interfaces.map(str::to_owned).collect(),
        advertised: args.advertise.clone(),
        port_range: args.port_range,
    })
}

/// The private key for ssh, which would pass over a file that is not there without a word.
fn identity(args: &HostArgs, environment: &Environment) -> Result<Option<PathBuf>> {
    let Some(file) = &args.ssh_identity_file else {
        return Ok(None);
    };
    // ssh writes its own `~` and `%h` out; a key of ssh-agent is named by its public half.
    let home = environment.text("HOME");
    let path = match (file.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => file.clone(),
    };
    let public = PathBuf::from(format!("{}.pub", path.display()));
    ensure!(
        path.exists() || public.exists() || path.to_string_lossy().contains('%'),
        "the file `{}` of `-i` does not exist; give a private key that the other hosts accept, e.g. \
         `-i ~/.ssh/id_ed25519`, or omit `-i`; `ssh-keygen -t ed25519 -N '' -f '{}'` creates one",
        file.display(),
        path.display()
    );
    Ok(Some(file.clone()))
}

fn config_file(args: &Args) -> Result<ConfigFile> {
    match &args.config_file {
        Some(path) => ConfigFile::read(path),
        None => Ok(ConfigFile::default()),
    }
}

/// What options and the file set in the workers; an option beats the file.
fn exports(args: &Args, file: ConfigFile) -> Exports {
    let typed = args.worker.exports();
    let is_typed = |variable: &str| typed.iter().any(|(name, _)| *name == variable);
    let mut exports = file.exports;
    exports.retain(|(variable, _)| !is_typed(variable));
    exports.extend(typed);
    exports
}

/// Finds, before anything is started, what every worker would complain about. Whether there is a
/// core for each process of a host is left to the workers, which know their host.
fn check_workers(inherited: &[(String, String)], exports: &Exports) -> Result<()> {
    let inherited = inherited
        .iter()
        .map(|(variable, value)| (variable.as_str(), value.as_str()))
        .filter(|(variable, _)| !is_set_by_launcher(variable));
    let exports = exports
        .iter()
        .map(|(variable, value)| (*variable, value.as_str()));
    let environment: Environment = inherited.chain(exports).collect();
    WorkerConfig::read(&environment)?;
    Ok(())
}

/// What the user should know although the job starts.
fn warnings(args: &Args, exports: &Exports, uses_mpi: bool) -> Vec<String> {
    let environment: Environment = exports.iter().cloned().collect();
    let idle = environment.without_effect();
    let idle = idle.iter().filter_map(|setting| setting.no_effect());
    idle.chain(args.worker.deprecated())
        .chain(mpi::without_effect(args).filter(|_| !uses_mpi))
        .collect()
}

/// The option, else the environment, else the default; 0 counts as not given.
pub(crate) fn start_timeout(args: &HostArgs, environment: &Environment) -> Result<Duration> {
    let given = args.start_timeout.filter(|&seconds| seconds > 0);
    let seconds = match given {
        Some(seconds) => seconds,
        None => environment.value(name::START_TIMEOUT, |_| true)?,
    };
    let seconds = if seconds == 0 { START_TIMEOUT } else { seconds };
    Ok(Duration::from_secs(seconds.into()))
}

/// What options set for the workers, else what they inherit, else what `--verbose` suggests.
fn log_level(args: &Args, exports: &Exports, environment: &Environment) -> String {
    let exported = exports
        .iter()
        .find(|(variable, _)| *variable == name::LOG_LEVEL);
    let exported = exported.map(|(_, level)| level.as_str());
    let fallback = if args.hosts.verbose {
        "INFO"
    } else {
        "WARNING"
    };
    exported
        .or_else(|| environment.text(name::LOG_LEVEL))
        .unwrap_or(fallback)
        .trim()
        .to_ascii_uppercase()
}
