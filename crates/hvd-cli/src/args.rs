//! What was typed. Only the shape of each option is checked here; what they mean together is
//! `settings.rs`'s part. The help text is `help.txt`: written by hand, because it is read more often
//! than any other page of this project; a test keeps it true.

use std::path::PathBuf;

use clap::Parser;
use hvd_launch::plan::SLOTS_LIMIT;

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
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) num_proc: Option<u32>,
    #[arg(short = 'H', long, value_name = "HOST:SLOTS,...")]
    pub(crate) hosts: Option<String>,
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole)]
    pub(crate) start_timeout: Option<u32>,
    #[arg(short = 'p', long, value_name = "PORT")]
    pub(crate) ssh_port: Option<u16>,
    #[arg(short = 'i', long, value_name = "FILE")]
    pub(crate) ssh_identity_file: Option<PathBuf>,
    #[arg(long, value_name = "NAME,...", alias = "network-interface")]
    pub(crate) network_interfaces: Option<String>,
    #[arg(long)]
    pub(crate) gloo: bool,
    #[arg(long)]
    pub(crate) disable_cache: bool,
    #[arg(long)]
    pub(crate) verbose: bool,
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) output_filename: Option<PathBuf>,
    #[arg(long)]
    pub(crate) prefix_output_with_timestamp: bool,
    #[arg(long, value_name = "LEVEL", value_parser = log_level)]
    pub(crate) log_level: Option<String>,
    #[arg(long, value_name = "MB", allow_negative_numbers = true, value_parser = megabytes)]
    pub(crate) fusion_threshold_mb: Option<u64>,
    #[arg(long, value_name = "MS", allow_negative_numbers = true, value_parser = milliseconds)]
    pub(crate) cycle_time_ms: Option<f64>,
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole)]
    pub(crate) cache_capacity: Option<u32>,
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole)]
    pub(crate) gloo_timeout_seconds: Option<u32>,
    /// For `horovod.run()`: standard input is a function for the workers.
    #[arg(long, hide = true)]
    pub(crate) function_stdin: bool,
    /// For `horovod.run()`: the pipe that gets the results.
    #[arg(long, hide = true, value_name = "FD")]
    pub(crate) results_fd: Option<i32>,
    #[arg(trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
}

/// The levels of `--log-level` and `HOROVOD_LOG_LEVEL`.
pub(crate) const LOG_LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"];

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (1..=SLOTS_LIMIT).contains(&number) => Ok(number),
        _ => Err(format!(
            "give a whole number from 1 to {SLOTS_LIMIT}, e.g. `-np 4`"
        )),
    }
}

fn whole(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("give a whole number from 0 to {}", u32::MAX))
}

fn megabytes(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if number <= 1 << 20 => Ok(number),
        _ => Err("give a whole number of megabytes, 0 to 1048576; 0 turns fusion off".to_owned()),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("give a number of milliseconds, 0 or more, e.g. `1` or `0.5`".to_owned()),
    }
}

fn log_level(text: &str) -> Result<String, String> {
    let level = text.to_ascii_uppercase();
    if LOG_LEVELS.contains(&level.as_str()) {
        return Ok(level);
    }
    Err(format!("give one of {}", LOG_LEVELS.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

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

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }
}
