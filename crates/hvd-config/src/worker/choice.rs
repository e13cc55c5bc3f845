//! Settings that are one of a few words.

use crate::environment::malformed;
use crate::setting::name;
use crate::{Environment, Result};

/// What moves tensors between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum TransportChoice {
    Auto,
    SharedMemory,
    Tcp,
}

/// Horovod's log levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warning,
    Error,
    Fatal,
}

/// What an average is divided by while some ranks have joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinAverageChoice {
    /// The number of all ranks; those that have joined count as zeros.
    AllRanks,
    /// The number of ranks that have not joined.
    Contributors,
}

/// What is encrypted on connections between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptionChoice {
    /// Everything but the contents of tensors.
    Control,
    /// Tensors too.
    All,
}

impl TransportChoice {
    pub(super) fn read(environment: &Environment) -> Result<Self> {
        match word(environment, name::TRANSPORT, "auto").as_str() {
            "auto" => Ok(Self::Auto),
            "shm" => Ok(Self::SharedMemory),
            "tcp" => Ok(Self::Tcp),
            text => Err(malformed(name::TRANSPORT, text)),
        }
    }
}

impl EncryptionChoice {
    pub(super) fn read(environment: &Environment) -> Result<Self> {
        match word(environment, name::ENCRYPT, "control").as_str() {
            "control" => Ok(Self::Control),
            "all" => Ok(Self::All),
            text => Err(malformed(name::ENCRYPT, text)),
        }
    }
}

impl LogLevel {
    /// The level the environment asks for.
    pub fn read(environment: &Environment) -> Result<Self> {
        match word(environment, name::LOG_LEVEL, "warning").as_str() {
            "trace" => Ok(Self::Trace),
            "debug" => Ok(Self::Debug),
            "info" => Ok(Self::Info),
            "warning" => Ok(Self::Warning),
            "error" => Ok(Self::Error),
            "fatal" => Ok(Self::Fatal),
            text => Err(malformed(name::LOG_LEVEL, text)),
        }
    }
}

impl JoinAverageChoice {
    pub(super) fn read(environment: &Environment) -> Result<Self> {
        match word(environment, name::JOIN_AVERAGE, "all").as_str() {
            "all" => Ok(Self::AllRanks),
            "contributors" => Ok(Self::Contributors),
            text => Err(malformed(name::JOIN_AVERAGE, text)),
        }
    }
}

fn word(environment: &Environment, variable: &str, default: &str) -> String {
    let text = environment.text(variable).unwrap_or(default);
    text.trim().to_ascii_lowercase()
}
