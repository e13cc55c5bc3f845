//! `horovodrun wheel`: the installed Horovod as a file that another host can install. Reads the
//! command line and prints the result; what an installation consists of is Python's business, and
//! written there (`horovod/runner/wheel.py`).

use std::io::{self, Write};

use clap::Parser;

use crate::{Python, UNWRITTEN, refuse, show};

/// The first word of the command line.
pub(crate) const WORD: &str = "wheel";

#[derive(Debug, Parser)]
#[command(
    name = "horovodrun wheel",
    override_help = include_str!("help_wheel.txt"),
    override_usage = "horovodrun wheel DIRECTORY"
)]
struct WheelArgs {
    /// Where to write it; `-` is standard output.
    #[arg(value_name = "DIRECTORY")]
    directory: String,
}

/// A wheel that was written, as [`Python::write_wheel`] returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenWheel {
    /// Its path; empty if it went to standard output.
    pub path: String,
    /// The line that installs it on another host; empty if it went to standard output.
    pub to_install: String,
}

/// Writes the wheel; returns the exit status.
pub(crate) fn run(program: &str, words: &[String], python: &Python<'_>) -> i32 {
    let words = [program.to_owned()]
        .into_iter()
        .chain(words.iter().cloned());
    let args = match WheelArgs::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    match (python.write_wheel)(&args.directory) {
        Ok(wheel) if wheel.path.is_empty() => 0,
        Ok(wheel) => {
            let status = show(&format!("{}\n", wheel.path));
            let hint = format!("To install it on another host: {}\n", wheel.to_install);
            let _ = io::stderr().write_all(hint.as_bytes());
            status
        }
        Err(problem) => {
            let _ = writeln!(io::stderr(), "horovodrun wheel: {problem}");
            UNWRITTEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(words: &[&str], answer: &Result<WrittenWheel, String>) -> i32 {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let python = Python {
            interpreter: "python3",
            is_installed: &|_| false,
            write_wheel: &|directory| {
                assert_eq!(directory, "out");
                answer.clone()
            },
        };
        run("horovodrun", &words, &python)
    }

    #[test]
    fn the_status_tells_success_failure_and_misuse_apart() {
        let wheel = WrittenWheel {
            path: "out/horovod.whl".to_owned(),
            to_install: "scp".to_owned(),
        };
        assert_eq!(status(&["out"], &Ok(wheel)), 0);
        assert_eq!(status(&["out"], &Err("changed".to_owned())), UNWRITTEN);
        assert_eq!(status(&[], &Err(String::new())), 2);
        assert_eq!(status(&["out", "more"], &Err(String::new())), 2);
    }

    #[test]
    fn the_help_fits_a_terminal() {
        for line in include_str!("help_wheel.txt").lines() {
            assert!(line.chars().count() <= 80, "too long: {line}");
            assert_eq!(line.trim_end(), line, "blanks at the end");
        }
    }
}
