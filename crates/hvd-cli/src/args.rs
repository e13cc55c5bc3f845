//! What was typed. What is said about hosts stands in `args/hosts.rs`, what is handed to the workers
//! in `args/worker.rs`. Only the shape of each option is checked here; what they mean together is
//! `settings.rs`'s part. The help text is `help.txt`: written by hand, because it is read more often
//! than any other page of this project; a test keeps it true.

mod container;
mod hosts;
mod worker;

use std::path::PathBuf;

use clap::Parser;

pub(crate) use container::{ContainerArgs, RuntimeArg};
pub(crate) use hosts::{HostArgs, LauncherArg};
pub(crate) use worker::{Exports, WorkerArgs};

/// The options of `horovodrun`.
#[derive(Debug, Parser)]
#[command(
    name = "horovodrun",
    override_help = include_str!("help.txt"),
    override_usage = "horovodrun -np N [options] command [arguments...]",
    infer_long_args = true,
    args_override_self = true,
    term_width = 80
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one per switch of the command line"
)]
pub(crate) struct Args {
    #[arg(short = 'v', long)]
    pub(crate) version: bool,
    #[arg(long)]
    pub(crate) check_build: bool,
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[arg(long, group = "controller")]
    pub(crate) gloo: bool,
    #[arg(long, group = "controller")]
    pub(crate) mpi: bool,
    #[arg(long, group = "controller")]
    pub(crate) jsrun: bool,
    /// For `mpirun`, which only `--mpi` starts; some programs pass it in any case.
    #[arg(long = "mpi-args", value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) for_mpirun: Option<String>,
    /// The same.
    #[arg(long = "binding-args", value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) binding: Option<String>,
    #[command(flatten)]
    pub(crate) container: ContainerArgs,
    #[arg(long)]
    pub(crate) disable_cache: bool,
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) output_filename: Option<PathBuf>,
    #[arg(long, group = "timestamp")]
    pub(crate) prefix_output_with_timestamp: bool,
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
    /// For `horovod.run()`: standard input is a function for the workers.
    #[arg(long, hide = true)]
    pub(crate) function_stdin: bool,
    /// For `horovod.run()`: the pipe that gets the results.
    #[arg(long, hide = true, value_name = "FD")]
    pub(crate) results_fd: Option<i32>,
    #[arg(trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use hvd_config::{Availability, SETTINGS};

    use super::*;

    const HELP: &str = include_str!("help.txt");

    #[test]
    fn the_help_fits_a_terminal_and_names_every_option() {
        for line in HELP.lines() {
            assert!(line.chars().count() <= 80, "too long: {line}");
            assert_eq!(line.trim_end(), line, "blanks at the end");
        }
        let command = Args::command();
        for option in command.get_opts().chain(command.get_arguments()) {
            let Some(long) = option.get_long().filter(|_| !option.is_hide_set()) else {
                continue;
            };
            assert!(
                HELP.contains(&format!("--{long}")),
                "--{long} is not in help.txt"
            );
        }
    }

    #[test]
    fn the_help_names_no_option_that_does_not_exist() {
        let mut command = Args::command();
        command.build();
        let known: Vec<&str> = command
            .get_arguments()
            .flat_map(|option| option.get_long_and_visible_aliases().unwrap_or_default())
            .chain(["network-interface"])
            .collect();
        for word in HELP.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
            let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) else {
                continue;
            };
            assert!(known.contains(&long), "--{long} is in help.txt only");
        }
    }

    /// The options of a section of the help, as words with their dashes.
    fn options_of(section: &str) -> impl Iterator<Item = &str> {
        section
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.starts_with("--"))
    }

    #[test]
    fn the_help_marks_what_has_no_effect_yet() {
        let flagged = SETTINGS
            .iter()
            .filter_map(|setting| Some((setting.flag?, setting)));
        for (flags, setting) in flagged {
            let flag = flags.split(", ").next().unwrap();
            let mut sections = HELP.split("\n\n");
            let section = sections.find(|section| {
                section.contains("\n  ") && options_of(section).any(|option| option == flag)
            });
            let is_marked = section
                .unwrap()
                .lines()
                .next()
                .unwrap()
                .contains("no effect yet");
            let is_later = setting.availability != Availability::Now;
            assert_eq!(is_marked, is_later, "{flag} stands in the wrong section");
        }
    }

    #[test]
    fn every_option_of_the_table_exists() {
        let command = Args::command();
        for flag in SETTINGS.iter().filter_map(|setting| setting.flag) {
            for flag in flag.split(", ") {
                let mut options = command.get_arguments();
                let exists =
                    options.any(|option| option.get_long().is_some_and(|long| flag[2..] == *long));
                assert!(exists, "{flag} is in the table of settings only");
            }
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }
}
