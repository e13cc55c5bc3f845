//! `horovodrun doctor`: the hosts of a job, looked at before it is started. Takes what `horovodrun`
//! takes about hosts, and the command only to see whether its program and script are there.

use std::ffi::OsString;

use anyhow::Result;
use clap::{CommandFactory, Parser};
use hvd_config::{Environment, name};
use hvd_launch::{FunctionMode, JobSpec, OutputOptions, ReportFormat, Verbosity, hosts::Host};

use crate::{
    args::HostArgs,
    argv::spell_out_for,
    complain, logging,
    settings::{JobHosts, check_advertised, directory, remote, start_timeout, verbosity},
};

/// As it is typed.
const NAME: &str = "horovodrun doctor";

/// The first word of the command line.
pub(crate) const WORD: &str = "doctor";

/// The options of `horovodrun doctor`.
#[derive(Debug, Parser)]
#[command(
    name = "horovodrun doctor",
    override_help = include_str!("help_doctor.txt"),
    override_usage = "horovodrun doctor [options] [command [arguments...]]",
    infer_long_args = true,
    args_override_self = true,
    term_width = 80
)]
struct DoctorArgs {
    #[command(flatten)]
    hosts: HostArgs,
    #[arg(long)]
    json: bool,
    #[arg(trailing_var_arg = true)]
    command: Vec<String>,
}

/// Runs it with the words after `doctor` and returns the exit status.
pub(crate) fn run(
    words: &[String],
    environment: Vec<(OsString, OsString)>,
    interpreter: &str,
) -> i32 {
    let args = match parse(words) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return error.exit_code();
        }
    };
    let form = if args.json {
        ReportFormat::Json
    } else {
        ReportFormat::Text
    };
    match job(args, environment, interpreter) {
        Ok((job, log_level)) => {
            logging::install(log_level);
            hvd_launch::check_hosts(&job, form)
        }
        Err(error) => complain(NAME, &format!("{error:#}")),
    }
}

fn parse(words: &[String]) -> Result<DoctorArgs, clap::Error> {
    let argv: Vec<String> = std::iter::once(NAME.to_owned())
        .chain(words.iter().cloned())
        .collect();
    DoctorArgs::try_parse_from(spell_out_for(&DoctorArgs::command(), &argv))
}

/// The job that is looked at, and the log level.
fn job(
    args: DoctorArgs,
    inherited: Vec<(OsString, OsString)>,
    interpreter: &str,
) -> Result<(JobSpec, String)> {
    let texts = |(name, value): &(OsString, OsString)| {
        Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
    };
    let environment: Environment = inherited.iter().filter_map(texts).collect();
    let hosts = hosts_to_check(&args.hosts, &environment)?;
    check_advertised(&args.hosts, &hosts.hosts)?;
    let start_timeout = start_timeout(&args.hosts, &environment)?;
    let verbosity = verbosity(&args.hosts);
    let fallback = match verbosity {
        Verbosity::Verbose => "INFO",
        Verbosity::Quiet => "WARNING",
    };
    let log_level = environment.text(name::LOG_LEVEL).unwrap_or(fallback);
    let log_level = log_level.trim().to_ascii_uppercase();
    let job = JobSpec {
        placements: hosts.place(&args.hosts)?,
        remote: remote(
            &args.hosts,
            &environment,
            interpreter,
            &hosts,
            start_timeout,
        )?,
        hosts: hosts.hosts,
        command: args.command,
        directory: directory()?,
        container: None,
        inherited,
        exports: Vec::new(),
        output: OutputOptions::default(),
        start_timeout,
        verbosity,
        function: FunctionMode::default(),
    };
    Ok((job, log_level))
}

/// The hosts as given, those of the batch system, or this machine.
fn hosts_to_check(args: &HostArgs, environment: &Environment) -> Result<JobHosts> {
    let is_silent = args.hosts.is_none() && args.hostfile.is_none() && args.num_proc.is_none();
    match JobHosts::choose(args, environment) {
        Err(_) if is_silent && !JobHosts::is_allocated(environment) => Ok(JobHosts {
            hosts: vec![Host {
                name: "localhost".to_owned(),
                slots: 1,
            }],
            allocation: None,
        }),
        chosen => chosen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = include_str!("help_doctor.txt");

    fn checked(line: &str) -> Result<JobSpec> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (job, _) = job(parse(&words)?, Vec::new(), "/usr/bin/python3")?;
        Ok(job)
    }

    #[test]
    fn the_help_fits_a_terminal_and_names_every_option_and_no_other() {
        for line in HELP.lines() {
            assert!(line.chars().count() <= 80, "too long: {line}");
            assert_eq!(line.trim_end(), line, "blanks at the end");
        }
        let mut command = DoctorArgs::command();
        command.build();
        let known: Vec<&str> = command
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .chain(["network-interface"])
            .collect();
        for long in &known {
            assert!(HELP.contains(&format!("--{long}")), "--{long} is missing");
        }
        for word in HELP.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
            let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) else {
                continue;
            };
            assert!(known.contains(&long), "--{long} is in the help only");
        }
    }

    #[test]
    fn hosts_and_command_are_those_of_the_job() {
        let job = checked("-H a:2,b:2 -p 12345 --port-range 100-200 python -np x.py").unwrap();
        assert_eq!(job.placements.len(), 4);
        assert_eq!(job.command, ["python", "-np", "x.py"]);
        assert_eq!(job.remote.ssh.port, Some(12345));
        assert_eq!(job.remote.port_range, Some((100, 200)));
        assert_eq!(checked("-np 3 -H a:2,b:2").unwrap().placements.len(), 3);
    }

    #[test]
    fn without_hosts_it_is_this_machine() {
        let job = checked("--json").unwrap();
        assert_eq!(job.placements.len(), 1);
        assert_eq!(job.hosts[0].name, "localhost");
        assert!(job.command.is_empty());
        assert_eq!(checked("-np 4").unwrap().placements.len(), 4);
    }

    #[test]
    fn mistakes_are_told() {
        let error = checked("-np 5 -H a:2,b:2").unwrap_err().to_string();
        assert!(error.contains("4 slots"), "{error}");
        let error = checked("-H a:1 --advertise b=192.0.2.1").unwrap_err();
        assert!(error.to_string().contains("--advertise"), "{error}");
        assert!(checked("--dry-run").is_err());
    }
}
