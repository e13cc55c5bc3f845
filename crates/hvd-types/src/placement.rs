//! Where one process stands in its job: what the launcher decides and the worker is told.

use crate::Rank;

/// One process's place in the job, on its host, and across hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Number of this process in the job.
    pub rank: Rank,
    /// Processes in the job.
    pub size: u32,
    /// Number of this process among those on its host.
    pub local_rank: u32,
    /// Processes on this host.
    pub local_size: u32,
    /// Position of this host among the hosts that have a process with the same local rank.
    pub cross_rank: u32,
    /// Number of such hosts.
    pub cross_size: u32,
    /// Name of the host as the user wrote it.
    pub hostname: String,
}

impl Placement {
    /// The place of a process that was started alone, without a launcher.
    pub fn alone() -> Self {
        Self {
            rank: Rank::COORDINATOR,
            size: 1,
            local_rank: 0,
            local_size: 1,
            cross_rank: 0,
            cross_size: 1,
            hostname: "localhost".to_owned(),
        }
    }

    /// Whether every process of the job is on this host.
    pub fn is_single_host(&self) -> bool {
        self.local_size == self.size
    }
}
