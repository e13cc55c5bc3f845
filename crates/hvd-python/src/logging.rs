//! Log lines of the engine, in Horovod's levels, to standard error.

use std::sync::Once;

use hvd_config::{Environment, LogLevel, name};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

static INSTALLED: Once = Once::new();

/// Starts logging at the level that was asked for; only the first call counts.
pub(crate) fn install(environment: &Environment) -> hvd_config::Result<()> {
    let hides_time = environment.flag(name::LOG_HIDE_TIME)?;
    let level = match LogLevel::read(environment)? {
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
        let _ = if hides_time {
            lines.without_time().try_init()
        } else {
            lines.try_init()
        };
    });
    Ok(())
}
