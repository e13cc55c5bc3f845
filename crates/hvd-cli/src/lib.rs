//! `horovodrun`: what was typed (`args.rs`), what will happen (`settings.rs`), and nothing of how it
//! is done, which is `hvd-launch`'s part.

#![forbid(unsafe_code)]

mod agent;
mod args;
mod argv;
mod check_build;
mod config_file;
mod debug;
mod doctor;
mod logging;
mod mpi;
mod not_yet;
mod settings;
mod typo;
mod value;
mod wheel;

use std::{
    ffi::OsString,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
};

use clap::Parser;
pub use hvd_launch::driver_above;
pub use wheel::WrittenWheel;

use crate::{args::Args, settings::Settings};

/// Exit status if what was asked for could not be printed.
const UNWRITTEN: i32 = 1;

/// The version of this release, as `--version` prints it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs `horovodrun` with the given arguments, the program's name first, and returns the exit
/// status. Does not know Python, so `--check-build` finds no framework; see [`run_with`].
pub fn run(argv: &[String]) -> i32 {
    let python = Python {
        interpreter: "python3",
        is_installed: &|_| false,
        write_wheel: &|_| {
            Err("this horovodrun was not installed from a wheel; in a checkout, `make wheel` makes one".to_owned())
        },
    };
    run_with(argv, &python)
}

/// The Python this command was started from.
#[derive(Clone, Copy)]
pub struct Python<'a> {
    /// Path of the interpreter; the same path is tried on other hosts.
    pub interpreter: &'a str,
    /// Answers whether a package is there; asked only by `--check-build`.
    pub is_installed: &'a dyn Fn(&str) -> bool,
    /// Writes the installed package as a wheel into a directory, or says why not; asked only by
    /// `horovodrun wheel`.
    pub write_wheel: &'a dyn Fn(&str) -> Result<WrittenWheel, String>,
}

impl std::fmt::Debug for Python<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Python").field(&self.interpreter).finish()
    }
}

/// Like [`run`], for a command that was started from Python.
///
/// Must be called by the only thread of the process, because a launcher forks. Never unwinds and
/// never ends the process.
pub fn run_with(argv: &[String], python: &Python<'_>) -> i32 {
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let guarded = AssertUnwindSafe(|| dispatch(argv, environment, python));
    catch_unwind(guarded).unwrap_or(1)
}

fn dispatch(argv: &[String], environment: Vec<(OsString, OsString)>, python: &Python<'_>) -> i32 {
    if let [program, first, words @ ..] = argv {
        match first.as_str() {
            agent::WORD => return agent::run(program, words, &environment),
            debug::WORD => return debug::run(program, words, &environment),
            doctor::WORD => return doctor::run(words, environment, python.interpreter),
            wheel::WORD => return wheel::run(program, words, python),
            word => {
                if let Some(text) = typo::explain(word, &environment) {
                    return complain("horovodrun", &text);
                }
            }
        }
    }
    let args = match Args::try_parse_from(argv::spell_out(argv)) {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    if args.version {
        return show(&format!("{VERSION}\n"));
    }
    if args.check_build {
        return show(&check_build::table(python.is_installed));
    }
    let dry_run = args.dry_run;
    match Settings::resolve(args, environment, python.interpreter) {
        Ok(Settings {
            job,
            mpi,
            log_level,
            warnings,
        }) => {
            logging::install(log_level);
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            match (dry_run, mpi) {
                (true, None) => describe(hvd_launch::describe(&job)),
                (true, Some(mpi)) => describe(hvd_launch::describe_mpi(&job, &mpi)),
                (false, None) => hvd_launch::launch(&job),
                (false, Some(mpi)) => hvd_launch::launch_mpi(&job, &mpi),
            }
        }
        Err(error) => complain("horovodrun", &format!("{error:#}")),
    }
}

/// `--dry-run`: the plan, and nothing else.
fn describe(plan: hvd_launch::Result<String>) -> i32 {
    match plan {
        Ok(text) => show(&text),
        Err(error) => complain("horovodrun", &error.to_string()),
    }
}

/// Help, which clap takes for an error too, or a mistake in the shape of the options.
fn refuse(error: &clap::Error) -> i32 {
    if let Some(text) = not_yet::explain(error) {
        return complain("horovodrun", &text);
    }
    // Colours only on a terminal, help to stdout, errors to stderr: clap knows.
    let _ = error.print();
    error.exit_code()
}

fn complain(command: &str, problem: &str) -> i32 {
    let text = format!("horovodrun: {problem}\nTry `{command} --help`.\n");
    let _ = io::stderr().write_all(text.as_bytes());
    settings::USAGE
}

/// Prints to stdout; a reader that has gone is no failure of ours, a full disk is.
fn show(text: &str) -> i32 {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let text = format!("horovodrun: cannot write standard output: {error}\n");
            let _ = io::stderr().write_all(text.as_bytes());
            UNWRITTEN
        }
        _ => 0,
    }
}
