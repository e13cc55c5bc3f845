//! What will happen: options and environment brought together, checked, and turned into the job
//! that `hvd-launch` runs. No clap types leave this file, and nothing is started here.

use std::{ffi::OsString, time::Duration};

use anyhow::{Result, bail, ensure};
use hvd_config::{Environment, name};
use hvd_launch::{
    FunctionMode, JobSpec, OutputOptions, Stamp, Verbosity,
    plan::{Host, allocate, parse_hosts, require_local},
};

use crate::args::{Args, LOG_LEVELS};

/// Exit status of a mistake in the options.
pub(crate) const USAGE: i32 = 2;

/// Budget of a start if nothing else is said.
const START_TIMEOUT: u32 = 30;

/// Everything that was decided.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The job to launch.
    pub(crate) job: JobSpec,
    /// The launcher's own log level, one of [`LOG_LEVELS`].
    pub(crate) log_level: String,
}

impl Settings {
    /// Decides what will happen.
    ///
    /// # Errors
    /// Every mistake a user can make, with what would be right.
    pub(crate) fn resolve(args: Args, inherited: Vec<(OsString, OsString)>) -> Result<Self> {
        let texts = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        let environment: Environment = inherited.iter().filter_map(texts).collect();
        let hosts = hosts(&args)?;
        ensure!(
            !args.command.is_empty(),
            "there is no command to run; put it last, e.g. `horovodrun -np 2 python train.py`"
        );
        require_local(&hosts, &this_machine())?;
        let ranks = args
            .num_proc
            .unwrap_or_else(|| hosts.iter().map(|host| host.slots).sum());
        ensure!(
            ranks > 0,
            "the hosts have no slots; write e.g. `-H localhost:4`"
        );
        let log_level = log_level(&args, &environment);
        let job = JobSpec {
            placements: allocate(&hosts, ranks)?,
            exports: exports(&args),
            start_timeout: start_timeout(&args, &environment)?,
            verbosity: if args.verbose {
                Verbosity::Verbose
            } else {
                Verbosity::Quiet
            },
            output: OutputOptions {
                directory: args.output_filename,
                stamp: if args.prefix_output_with_timestamp {
                    Stamp::LocalTime
                } else {
                    Stamp::Without
                },
            },
            function: FunctionMode {
                input: args.function_stdin,
                results: args.results_fd,
            },
            command: args.command,
            inherited,
        };
        Ok(Self { job, log_level })
    }
}

/// The hosts as given, or this machine with as many slots as processes.
fn hosts(args: &Args) -> Result<Vec<Host>> {
    match (&args.hosts, args.num_proc) {
        (Some(text), _) => Ok(parse_hosts(text)?),
        (None, Some(ranks)) => Ok(vec![Host {
            name: "localhost".to_owned(),
            slots: ranks,
        }]),
        (None, None) => bail!(
            "how many processes? say `-np`, e.g. `horovodrun -np 2 python train.py`, or give \
             hosts with `-H`"
        ),
    }
}

fn this_machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// The variables that options set in the workers; an option that was not given sets nothing.
fn exports(args: &Args) -> Vec<(String, String)> {
    let fusion = args
        .fusion_threshold_mb
        .map(|megabytes| (megabytes << 20).to_string());
    // With its decimal point even when whole, as readers of this variable have always seen it.
    let cycle = args
        .cycle_time_ms
        .map(|milliseconds| format!("{milliseconds:?}"));
    [
        (name::FUSION_THRESHOLD, fusion),
        (name::CYCLE_TIME, cycle),
        (
            name::CACHE_CAPACITY,
            args.cache_capacity.map(|number| number.to_string()),
        ),
        (
            name::TIMEOUT,
            args.gloo_timeout_seconds.map(|number| number.to_string()),
        ),
        (name::LOG_LEVEL, args.log_level.clone()),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// The option, else the environment, else the default; 0 counts as not given.
fn start_timeout(args: &Args, environment: &Environment) -> Result<Duration> {
    let given = args.start_timeout.filter(|&seconds| seconds > 0);
    let seconds = match given {
        Some(seconds) => seconds,
        None => environment.value(name::START_TIMEOUT, |_| true)?,
    };
    let seconds = if seconds == 0 { START_TIMEOUT } else { seconds };
    Ok(Duration::from_secs(seconds.into()))
}

/// The option, else the environment if it makes sense, else what `--verbose` suggests.
fn log_level(args: &Args, environment: &Environment) -> String {
    let inherited = || {
        let level = environment.text(name::LOG_LEVEL)?.to_ascii_uppercase();
        LOG_LEVELS.contains(&level.as_str()).then_some(level)
    };
    let fallback = || if args.verbose { "INFO" } else { "WARNING" }.to_owned();
    args.log_level
        .clone()
        .or_else(inherited)
        .unwrap_or_else(fallback)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::argv::spell_out;

    fn resolve(line: &str, environment: &[(&str, &str)]) -> Result<Settings> {
        let argv: Vec<String> = format!("horovodrun {line}")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let environment = environment
            .iter()
            .map(|(n, v)| (n.into(), v.into()))
            .collect();
        Settings::resolve(Args::try_parse_from(spell_out(&argv))?, environment)
    }

    fn refusal(line: &str) -> String {
        format!("{:#}", resolve(line, &[]).unwrap_err())
    }

    fn ranks(line: &str) -> usize {
        resolve(line, &[]).unwrap().job.placements.len()
    }

    #[test]
    fn as_many_ranks_as_asked_for_or_as_there_are_slots() {
        assert_eq!(ranks("-np 2 -H localhost:4 x"), 2);
        assert_eq!(ranks("-H localhost:3 x"), 3);
        assert_eq!(ranks("-n 5 x"), 5);
        assert_eq!(ranks("-np4 x"), 4);
        assert!(refusal("-np 5 -H localhost:4 x").contains("5 processes do not fit"));
        assert!(refusal("-H localhost:0 x").contains("no slots"));
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        assert!(refusal("-np 2").contains("`horovodrun -np 2 python train.py`"));
        assert!(refusal("python x").contains("how many processes?"));
        for wrong in ["0", "-3", "two", "1.5", "70000"] {
            let text = refusal(&format!("-np {wrong} x"));
            assert!(
                text.contains("a whole number from 1 to 65536, e.g. `-np 4`"),
                "{text}"
            );
        }
        assert!(refusal("-np 2 --cycle-time-ms -1 x").contains("0 or more"));
        assert!(refusal("-np 2 --bogus x").contains("--bogus"));
        assert!(refusal("-np 1 -H elsewhere.example:1 x").contains("not possible yet"));
    }

    #[test]
    fn everything_after_the_first_word_belongs_to_the_command() {
        let command = |line: &str| resolve(line, &[]).unwrap().job.command.join(" ");
        assert_eq!(
            command("-np 2 python t.py -v --verbose -np 3"),
            "python t.py -v --verbose -np 3"
        );
        assert_eq!(command("-np 2 -- python -- x"), "python -- x");
        assert_eq!(command("-np 2 -- -odd -name"), "-odd -name");
        assert_eq!(command("-np 2 --verb python"), "python");
    }

    #[test]
    fn options_are_exported_and_what_is_not_given_is_not() {
        let line = "-np 1 --fusion-threshold-mb 10 --cycle-time-ms 20 --cache-capacity 512 \
                    --gloo-timeout-seconds 7 --log-level debug x";
        let exports = resolve(line, &[]).unwrap().job.exports;
        let text: Vec<String> = exports.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(
            text,
            [
                "HOROVOD_FUSION_THRESHOLD=10485760",
                "HOROVOD_CYCLE_TIME=20.0",
                "HOROVOD_CACHE_CAPACITY=512",
                "HOROVOD_GLOO_TIMEOUT_SECONDS=7",
                "HOROVOD_LOG_LEVEL=DEBUG",
            ]
        );
        assert!(resolve("-np 1 x", &[]).unwrap().job.exports.is_empty());
    }

    #[test]
    fn the_start_timeout_is_option_then_environment_then_default() {
        let seconds = |line: &str, value: &str| {
            resolve(line, &[("HOROVOD_START_TIMEOUT", value)])
                .unwrap()
                .job
                .start_timeout
                .as_secs()
        };
        assert_eq!(seconds("-np 1 --start-timeout 5 x", "7"), 5);
        assert_eq!(seconds("-np 1 --start-timeout 0 x", "7"), 7);
        assert_eq!(seconds("-np 1 x", "7"), 7);
        assert_eq!(seconds("-np 1 x", "0"), 30);
        assert_eq!(seconds("-np 1 x", ""), 30);
        let error = resolve("-np 1 x", &[("HOROVOD_START_TIMEOUT", "soon")]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("HOROVOD_START_TIMEOUT=`soon` is not a number")
        );
    }

    #[test]
    fn accepted_options_change_nothing() {
        let line = "-p 12345 -i key --gloo --disable-cache --network-interface lo -np 1 x";
        let settings = resolve(line, &[]).unwrap();
        assert!(settings.job.exports.is_empty());
        assert_eq!(settings.log_level, "WARNING");
    }
}
