//! What the driver knows of each rank, shared between the job and the debug responder.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hvd_types::{Placement, Rank};

use super::description::JobRank;

/// How a rank stands as far as the driver can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankState {
    /// Its process has ended.
    Ended,
    /// It has not called `hvd.init()`.
    Absent,
    /// It has called `hvd.init()`; whether it answers is another matter.
    Present,
}

impl RankState {
    const ALL: [Self; 3] = [Self::Ended, Self::Absent, Self::Present];

    /// The letter that stands for it.
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Ended => 'e',
            Self::Absent => 'a',
            Self::Present => 'p',
        }
    }

    pub(super) fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.letter() == letter)
    }
}

/// The ranks of a job; clones share one state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster(Arc<Mutex<Vec<RosterEntry>>>);

#[derive(Debug, Clone)]
struct RosterEntry {
    member: JobRank,
    ended: bool,
}

impl Roster {
    /// Ranks that were all started by another launcher, which alone learns of their ends.
    pub(super) fn of(ranks: Vec<JobRank>) -> Self {
        let entry = |member| RosterEntry {
            member,
            ended: false,
        };
        Self(Arc::new(Mutex::new(ranks.into_iter().map(entry).collect())))
    }

    /// A rank was started; in the order of ranks.
    pub(crate) fn started(&self, placement: &Placement, pid: i32) {
        self.lock().push(RosterEntry {
            member: JobRank {
                pid,
                host: placement.hostname.clone(),
            },
            ended: false,
        });
    }

    /// A rank's process has ended.
    pub(crate) fn ended(&self, rank: Rank) {
        if let Some(entry) = self.lock().get_mut(rank.index()) {
            entry.ended = true;
        }
    }

    pub(super) fn ranks(&self) -> Vec<JobRank> {
        self.lock().iter().map(|it| it.member.clone()).collect()
    }

    /// Whether each rank's process has ended.
    pub(super) fn ends(&self) -> Vec<bool> {
        self.lock().iter().map(|entry| entry.ended).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RosterEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
