//! What this rank has under way in one process set: what it submitted and announced, and what it
//! remembers of earlier agreements.

use std::sync::Arc;

use hvd_types::{OpKind, ProcessSetId};
use hvd_wire::{Operation, RequestList, TensorRef, TensorSpec};

use crate::execute::Task;
use crate::execute::team::Team;
use crate::hash::FastMap;
use crate::negotiate::response_cache::ResponseCache;
use crate::queue::{BoxedEntry, QueueEntry};
use crate::schedule::progress::ScheduleProgress;
use crate::submit::JOIN_NAME;
use crate::tensor::TensorSource;
use crate::{Error, Result};

/// One process set as a member sees it.
#[derive(Debug)]
pub(crate) struct LocalSet {
    id: ProcessSetId,
    pub(crate) team: Arc<Team>,
    known: ResponseCache,
    /// Submitted, announced, and not yet executed.
    pending: FastMap<Arc<str>, BoxedEntry>,
    /// The last response list that was carried out.
    seen: u64,
}

impl LocalSet {
    pub(crate) fn new(id: ProcessSetId, team: Team) -> Self {
        Self {
            id,
            team: Arc::new(team),
            known: ResponseCache::default(),
            pending: FastMap::default(),
            seen: 0,
        }
    }

    /// An announcement to the coordinator, with nothing in it yet.
    pub(crate) fn announcement(&self) -> RequestList {
        RequestList {
            process_set: self.id,
            seen: self.seen,
            ..RequestList::default()
        }
    }

    /// Takes an entry in and adds it to an announcement: as a number if the same was agreed
    /// before.
    pub(crate) fn announce(&mut self, entry: BoxedEntry, message: &mut RequestList) {
        self.describe(&entry, message);
        self.pending.insert(Arc::clone(&entry.request.name), entry);
    }

    fn describe(&self, entry: &QueueEntry, message: &mut RequestList) {
        match self.known.number_of(&entry.request) {
            Some(id) => message.cached.push(id),
            None => message.requests.push(entry.request.clone()),
        }
    }

    /// Takes an entry into a schedule, or gives it back if the schedule has no place for it.
    pub(crate) fn enter(
        &mut self,
        entry: BoxedEntry,
        progress: &mut ScheduleProgress,
    ) -> std::result::Result<(), BoxedEntry> {
        let number = self.known.number_of(&entry.request);
        if !number.is_some_and(|id| progress.accept(id)) {
            return Err(entry);
        }
        self.pending.insert(Arc::clone(&entry.request.name), entry);
        Ok(())
    }

    /// Takes everything that is pending into a schedule that begins; false if something does not
    /// fit.
    pub(crate) fn enter_pending(&self, progress: &mut ScheduleProgress) -> bool {
        self.pending.values().all(|entry| {
            let number = self.known.number_of(&entry.request);
            number.is_some_and(|id| progress.accept(id))
        })
    }

    /// Announces all that is pending, in the order in which it was submitted, after a schedule.
    pub(crate) fn announce_pending(&self, message: &mut RequestList) {
        let mut pending: Vec<&BoxedEntry> = self.pending.values().collect();
        pending.sort_by_key(|entry| entry.submitted);
        for entry in pending {
            self.describe(entry, message);
        }
    }

    /// The sources of an operation's tensors, all of which were submitted here.
    pub(crate) fn sources<'a>(
        &'a self,
        operation: &'a Operation,
    ) -> impl Iterator<Item = Option<&'a TensorSource>> {
        operation.tensors.iter().map(|reference| match reference {
            TensorRef::Cached(id) => {
                let name = &self.known.get(*id)?.name;
                self.pending.get(name).map(|entry| &entry.source)
            }
            TensorRef::New(_) => None,
        })
    }

    /// Bytes of an operation's tensors; none if one of them is not known.
    pub(crate) fn bytes(&self, operation: &Operation) -> Option<u64> {
        operation.tensors.iter().try_fold(0_u64, |sum, reference| {
            let TensorRef::Cached(id) = reference else {
                return None;
            };
            let elements = self.known.get(*id)?.shape.elements()?;
            sum.checked_add(elements.checked_mul(operation.dtype.size() as u64)?)
        })
    }

    /// Begins to carry out a response list: forgets what it evicts.
    pub(crate) fn begin(&mut self, sequence: u64, evicted: &[hvd_wire::CacheId]) {
        self.seen = sequence;
        for &id in evicted {
            self.known.forget(id);
        }
    }

    /// The tensors of an operation, as far as they are known.
    pub(crate) fn names(&self, operation: &Operation) -> impl Iterator<Item = Arc<str>> {
        operation
            .tensors
            .iter()
            .filter_map(|reference| match reference {
                TensorRef::Cached(id) => Some(Arc::clone(&self.known.spec(*id)?.name)),
                TensorRef::New(spec) => Some(Arc::clone(&spec.name)),
            })
    }

    /// What this rank has for each tensor of an operation.
    pub(crate) fn tasks(&mut self, operation: &Operation) -> Result<Vec<Task>> {
        let kind = operation.kind;
        operation
            .tensors
            .iter()
            .map(|reference| self.task(kind, reference))
            .collect()
    }

    fn task(&mut self, kind: OpKind, reference: &TensorRef) -> Result<Task> {
        let spec = match reference {
            TensorRef::Cached(id) => {
                let unknown = || Error::Internal(format!("unknown cache number {}", id.0));
                self.known.spec(*id).ok_or_else(unknown)?
            }
            TensorRef::New(spec) => Arc::new(spec.clone()),
        };
        let entry = self.pending.remove(&spec.name);
        match &entry {
            Some(entry) if matches!(reference, TensorRef::New(_)) => self.remember(&spec, entry),
            Some(_) => {}
            None if self.has_joined() && matches!(kind, OpKind::Allreduce | OpKind::Adasum) => {}
            None => return Err(not_asked_for(&spec.name)),
        }
        Ok(Task { spec, entry })
    }

    fn remember(&mut self, spec: &Arc<TensorSpec>, entry: &QueueEntry) {
        if let Some(id) = spec.cache {
            self.known
                .remember(id, Arc::clone(spec), entry.request.clone());
        }
    }

    /// The entry of a tensor that cannot be executed; none if this rank has joined.
    pub(crate) fn refused(&mut self, name: &Arc<str>) -> Result<Option<BoxedEntry>> {
        match self.pending.remove(name) {
            None if !self.has_joined() => Err(not_asked_for(name)),
            entry => Ok(entry),
        }
    }

    /// The entry of the join, which is over.
    pub(crate) fn joined(&mut self) -> Result<BoxedEntry> {
        let missing = || not_asked_for(&JOIN_NAME.into());
        self.pending.remove(JOIN_NAME).ok_or_else(missing)
    }

    /// Whether anything is pending.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether anything is pending that is completed by callback.
    pub(crate) fn has_callbacks(&self) -> bool {
        self.pending.values().any(|entry| entry.has_callback())
    }

    /// Everything that is pending, when the set or the engine ends.
    pub(crate) fn into_pending(self) -> impl Iterator<Item = BoxedEntry> {
        self.pending.into_values()
    }

    fn has_joined(&self) -> bool {
        self.pending.contains_key(JOIN_NAME)
    }
}

fn not_asked_for(name: &Arc<str>) -> Error {
    Error::Internal(format!(
        "a response list names tensor `{name}`, which this rank did not submit"
    ))
}
