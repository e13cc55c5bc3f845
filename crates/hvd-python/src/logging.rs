//! Log lines of the engine, in Horovod's levels, to standard error.

use std::sync::Once;

use hvd_config::{LogLevel, WorkerConfig};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

static INSTALLED: Once = Once::new();

/// Starts logging at the level that was asked for; only the first call counts.
pub(crate) fn install(config: &WorkerConfig) {
    let level = match config.log_level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Error | LogLevel::Fatal => LevelFilter::ERROR,
    };
    INSTALLED.call_once(|| {
        let lines = fmt()
            .with_max_level(level)
            .with_writer(std::io::stderr)
            .with_ansi(false);
        // A program that embeds Python may have a subscriber of its own; then that one is used.
        let _ = if config.log_time {
            lines.try_init()
        } else {
            lines.without_time().try_init()
        };
    });
}
