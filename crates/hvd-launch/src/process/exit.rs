//! How a process ended, as the kernel reports to its parent.

use serde::{Deserialize, Serialize};

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProcessExit {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl ProcessExit {
    /// The exit status a shell would report for it.
    pub(crate) fn status(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal,
        }
    }

    pub(crate) fn is_failure(self) -> bool {
        self != Self::Exited(0)
    }
}
