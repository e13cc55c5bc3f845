//! A tensor that some members of a process set have asked for, and what each of them said.

use std::sync::Arc;

use hvd_types::{OpKind, Rank};
use hvd_wire::{CacheId, Request};

use super::agreement::Agreement;

/// Who has asked for a tensor, in the order of arrival.
#[derive(Debug)]
pub(super) struct Waiting {
    /// When it was first asked for, in numbers of tensors.
    pub(super) arrival: u64,
    pub(super) askers: Vec<(Rank, Asked)>,
}

/// What a rank said when it asked.
#[derive(Debug)]
pub(super) enum Asked {
    /// The number of an earlier agreement, and that agreement.
    Number(CacheId, Arc<Agreement>),
    /// A description in full.
    Request(Request),
}

impl Asked {
    pub(super) fn kind(&self) -> OpKind {
        match self {
            Self::Number(_, agreement) => agreement.kind,
            Self::Request(request) => request.kind,
        }
    }
}

impl Waiting {
    pub(super) fn new(arrival: u64) -> Self {
        Self {
            arrival,
            askers: Vec::new(),
        }
    }

    pub(super) fn has_asked(&self, rank: Rank) -> bool {
        self.askers.iter().any(|&(asker, _)| asker == rank)
    }

    /// Whether every one of `members` ranks that has not joined has asked.
    pub(super) fn is_ready(&self, members: usize, joined: &[Rank]) -> bool {
        let active = self
            .askers
            .iter()
            .filter(|(rank, _)| !joined.contains(rank));
        active.count() == members - joined.len()
    }

    /// The earlier agreement, if every asker named the same one.
    pub(super) fn unanimous_number(&self) -> Option<(CacheId, &Arc<Agreement>)> {
        let mut numbers = self.askers.iter().map(|(_, asked)| match asked {
            Asked::Number(id, agreement) => Some((*id, agreement)),
            Asked::Request(_) => None,
        });
        let (id, agreement) = numbers.next()??;
        let unanimous = numbers.all(|other| other.is_some_and(|(other, _)| other == id));
        unanimous.then_some((id, agreement))
    }
}
