//! The log of the launcher itself: to stderr, in colour only on a terminal. Installed once; a host
//! program that has its own keeps it.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;

/// Starts logging at one of Horovod's levels.
pub(crate) fn install(level: impl AsRef<str>) {
    let filter = match level.as_ref() {
        "TRACE" => LevelFilter::TRACE,
        "DEBUG" => LevelFilter::DEBUG,
        "INFO" => LevelFilter::INFO,
        "ERROR" | "FATAL" => LevelFilter::ERROR,
        _ => LevelFilter::WARN,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .finish();
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        tracing::debug!("a log is installed already");
    }
}
