//! A tensor that some members of a process set have asked for, and what they said.

use std::sync::Arc;

use hvd_types::{OpKind, Ranks};
use hvd_wire::CacheId;

use super::agreement::Agreement;
use super::askers::{Asked, Askers};

/// Who has asked for a tensor, in the order of arrival.
#[derive(Debug)]
pub(super) struct Waiting {
    /// When it was first asked for, in numbers of tensors.
    pub(super) arrival: u64,
    /// Numbers come with the agreement that they stand for: it may be forgotten meanwhile.
    pub(super) askers: Askers<Arc<Agreement>>,
}

impl Asked<Arc<Agreement>> {
    pub(super) fn kind(&self) -> OpKind {
        match self {
            Self::Number(_, agreement) => agreement.kind,
            Self::Request(shared) => shared.request.kind,
        }
    }
}

impl Waiting {
    pub(super) fn new(arrival: u64) -> Self {
        Self {
            arrival,
            askers: Askers::default(),
        }
    }

    /// Whether every one of `members` ranks that has not joined has asked.
    pub(super) fn is_ready(&self, members: usize, joined: &Ranks) -> bool {
        let active = self.askers.len() - self.askers.common(joined);
        active == members - joined.len()
    }

    /// The earlier agreement, if every asker named the same one.
    pub(super) fn unanimous_number(&self) -> Option<(CacheId, &Arc<Agreement>)> {
        match self.askers.groups() {
            [group] => match &group.asked {
                Asked::Number(id, agreement) => Some((*id, agreement)),
                Asked::Request(_) => None,
            },
            _ => None,
        }
    }
}
