//! What one drain of the queue found that other ranks have to learn of: it is announced at once, or
//! deferred until a schedule has ended.

use hvd_wire::SetChange;

use crate::queue::BoxedEntry;

/// Operations, changes of process sets and a shutdown that were asked for here.
#[derive(Debug, Default)]
pub(crate) struct Submissions {
    pub(crate) entries: Vec<BoxedEntry>,
    pub(crate) changes: Vec<SetChange>,
    pub(crate) shutdown: bool,
}

impl Submissions {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.changes.is_empty() && !self.shutdown
    }
}
