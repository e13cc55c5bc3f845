//! `horovodrun debug`: asks a running job how it stands and prints one table. Only the very first
//! word of the command line is taken for it; after any option, `debug` is a command like others.

mod json;
mod table;

use std::{
    ffi::OsString,
    io::{self, Write},
};

use clap::Parser;
use hvd_launch::{
    debug::{DebugClient, JobDescription, find_jobs, unusable_directories},
    printable,
};

use crate::{settings, show};

/// What makes it this command.
pub(crate) const WORD: &str = "debug";

/// Exit status if there is no job, or no answer.
const FAILED: i32 = 1;

/// Show what every rank of a running job is doing.
///
/// For each rank: whether it is running an operation, waiting for other ranks or idle, the tensor
/// and for how long, and the line of Python it is executing. The job is not interrupted. Only your
/// own jobs on this machine can be inspected.
#[derive(Debug, Parser)]
#[command(
    name = "horovodrun debug",
    override_usage = "horovodrun debug [OPTIONS] [PID|JOB]",
    term_width = 80
)]
struct DebugArgs {
    /// Process ID of horovodrun or of any rank, or part of the job's command; optional if only one
    /// job is running
    #[arg(value_name = "PID|JOB")]
    job: Option<String>,
    /// Also show the last operations and full stacks
    #[arg(short, long)]
    verbose: bool,
    /// Print everything as JSON
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
}

/// Does it and returns the exit status.
pub(crate) fn run(program: &str, words: &[String], environment: &[(OsString, OsString)]) -> i32 {
    let argv = std::iter::once(program).chain(words.iter().map(String::as_str));
    let args = match DebugArgs::try_parse_from(argv) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return error.exit_code();
        }
    };
    let jobs = find_jobs(environment);
    let chosen = match choose(&jobs, args.job.as_deref(), DebugClient::description) {
        Ok(job) => job,
        Err((status, text)) if jobs.is_empty() => {
            let problems = unusable_directories(environment);
            return complain(status, &(text + &not_looked_at(&problems)));
        }
        Err((status, text)) => return complain(status, &text),
    };
    match chosen.ask() {
        Ok(status) if args.json => show(&json::document(&status)),
        Ok(status) if args.verbose => show(&printable(&table::in_full(&status))),
        Ok(status) => show(&printable(&table::brief(&status))),
        Err(error) => complain(FAILED, &format!("horovodrun: {error}\n")),
    }
}

/// Where jobs could be as well, if there are such places.
fn not_looked_at(problems: &[String]) -> String {
    let line = |problem: &String| {
        format!("horovodrun: some directories could not be searched: {problem}\n")
    };
    problems.iter().map(line).collect()
}

/// The job that is meant; else the exit status and what to say.
fn choose<'a, T>(
    jobs: &'a [T],
    word: Option<&str>,
    describe: impl Fn(&T) -> &JobDescription,
) -> Result<&'a T, (i32, String)> {
    let meant = |job: &&T| word.is_none_or(|word| describe(job).is_meant_by(word));
    let candidates: Vec<&T> = jobs.iter().filter(meant).collect();
    let list = |jobs: &[&T]| table::jobs(jobs.iter().map(|job| describe(job)));
    match (candidates.as_slice(), word) {
        ([job], _) => Ok(job),
        ([], _) if jobs.is_empty() => Err((
            FAILED,
            "horovodrun: no job of yours is running on this machine\n".to_owned(),
        )),
        ([], word) => {
            let all: Vec<&T> = jobs.iter().collect();
            let word = word.unwrap_or_default();
            Err((
                FAILED,
                format!(
                    "horovodrun: no job matches `{word}`; running jobs:\n{}",
                    list(&all)
                ),
            ))
        }
        (several, _) => Err((
            settings::USAGE,
            format!(
                "horovodrun: several jobs are running; choose one, e.g. `horovodrun debug {}`:\n{}",
                describe(several[0]).supervisor,
                list(several)
            ),
        )),
    }
}

fn complain(status: i32, text: &str) -> i32 {
    let _ = io::stderr().write_all(printable(text).as_bytes());
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;
    use hvd_launch::debug::JobRank;

    use super::*;

    fn job(supervisor: i32, command: &str) -> JobDescription {
        JobDescription {
            supervisor,
            driver: supervisor + 1,
            age: Duration::from_secs(75),
            command: command.to_owned(),
            ranks: vec![JobRank {
                pid: supervisor + 2,
                host: "h".to_owned(),
            }],
        }
    }

    fn chosen(jobs: &[JobDescription], word: Option<&str>) -> Result<i32, (i32, String)> {
        choose(jobs, word, |job| job).map(|job| job.supervisor)
    }

    #[test]
    fn one_job_needs_no_name_and_several_do() {
        let jobs = [job(10, "python train.py"), job(20, "python eval.py")];
        assert_eq!(chosen(&jobs[..1], None), Ok(10));
        assert_eq!(chosen(&jobs, Some("22")), Ok(20));
        assert_eq!(chosen(&jobs, Some("eval")), Ok(20));
        let (status, text) = chosen(&jobs, None).unwrap_err();
        assert_eq!(status, settings::USAGE);
        assert!(
            text.contains("10") && text.contains("python eval.py"),
            "{text}"
        );
        let (status, text) = chosen(&jobs, Some("99")).unwrap_err();
        assert_eq!(status, FAILED);
        assert!(
            text.contains("no job matches `99`") && text.contains("train.py"),
            "{text}"
        );
        assert!(chosen(&[], None).unwrap_err().1.contains("no job of yours"));
    }

    #[test]
    fn the_definition_is_sound() {
        DebugArgs::command().debug_assert();
    }
}
