//! A tensor that some members of a process set have asked for, and their requests.

use std::sync::Arc;

use hvd_types::{OpKind, Ranks};
use hvd_wire::CacheId;

use super::agreement::Agreement;
use super::requesters::{RequestForm, Requesters};

/// The requests for a tensor, in the order of arrival.
#[derive(Debug)]
pub(super) struct PendingTensor {
    /// When it was first asked for, in numbers of tensors.
    pub(super) arrival: u64,
    /// Numbers come with the agreement that they stand for: it may be forgotten meanwhile.
    pub(super) requesters: Requesters<Arc<Agreement>>,
}

impl RequestForm<Arc<Agreement>> {
    pub(super) fn kind(&self) -> OpKind {
        match self {
            Self::Cached(_, agreement) => agreement.kind,
            Self::Full(shared) => shared.request.kind,
        }
    }
}

impl PendingTensor {
    pub(super) fn new(arrival: u64) -> Self {
        Self {
            arrival,
            requesters: Requesters::default(),
        }
    }

    /// Whether every one of `members` ranks that has not joined has asked.
    pub(super) fn is_ready(&self, members: usize, joined: &Ranks) -> bool {
        let active = self.requesters.len() - self.requesters.common(joined);
        active == members - joined.len()
    }

    /// The earlier agreement, if every requester named the same one.
    pub(super) fn unanimous_number(&self) -> Option<(CacheId, &Arc<Agreement>)> {
        match self.requesters.groups() {
            [group] => match &group.form {
                RequestForm::Cached(id, agreement) => Some((*id, agreement)),
                RequestForm::Full(_) => None,
            },
            _ => None,
        }
    }
}
