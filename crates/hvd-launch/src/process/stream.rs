//! The two output streams of a process.

use serde::{Deserialize, Serialize};

/// One of a worker's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Both, in the order of their descriptors.
    pub(crate) const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// The name used in prefixes and file names.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}
