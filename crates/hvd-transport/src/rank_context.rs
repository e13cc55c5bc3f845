//! What every kind of transport knows about its rank and its job.

use std::time::Duration;

use hvd_types::{Rank, Topology};

use crate::shm::Corrupt;
use crate::{Abort, Error, Result};

/// One rank among the ranks of its job.
#[derive(Debug, Clone)]
pub(crate) struct RankContext {
    pub(crate) rank: Rank,
    pub(crate) topology: Topology,
    /// How long a peer may make no progress.
    pub(crate) progress_timeout: Duration,
    pub(crate) abort: Abort,
    /// Whether every rank on this machine has a core of its own, so that a wait may spin before it
    /// sleeps.
    pub(crate) has_cores: bool,
}

impl RankContext {
    /// The outcome of moving bytes through memory shared with `peer`: nothing moves any more once
    /// the job has failed (`WIRE-4`).
    pub(crate) fn checked(
        &self,
        peer: Rank,
        moved: std::result::Result<usize, Corrupt>,
    ) -> Result<usize> {
        match moved {
            Ok(0) => self.abort.check().map(|()| 0),
            Ok(moved) => Ok(moved),
            Err(Corrupt) => Err(Error::Corrupted {
                rank: peer,
                host: self.topology.host_name(peer).to_owned(),
            }),
        }
    }
}
