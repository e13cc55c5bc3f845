//! What a relay holds of one process set: tensors that not every rank below has asked for yet.
//!
//! The entry of a tensor lives until every rank below that takes part has asked for it. The
//! coordinator answers no tensor before that, so an entry never outlives the tensor it is about.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::{OpKind, ProcessSetId, Rank, Ranks};
use hvd_wire::{CacheId, Response, ResponseList, SharedRequest, SharedRequestList, TensorRef};

use super::{append, ends_join, is_open};
use crate::negotiate::requesters::{RequestForm, Requesters};
use crate::negotiate::tree::TreePosition;

/// The announcements of one process set on their way up.
#[derive(Debug)]
pub(super) struct HeldRequests {
    id: ProcessSetId,
    /// Those of the set that are below the relay, itself included.
    members: Ranks,
    /// Those of them that have nothing more to give.
    joined: Ranks,
    /// The tensors that numbers stand for.
    names: HashMap<CacheId, Arc<str>>,
    tensors: HashMap<Arc<str>, Incomplete>,
    /// Tensors of which something is held, oldest first; some of them are complete meanwhile.
    ages: VecDeque<(Instant, Arc<str>)>,
    /// The last response list that all ranks behind each neighbour have read.
    seen: BTreeMap<Rank, u64>,
    /// What the parent knows of that.
    told_seen: u64,
}

/// A tensor that some ranks below have not asked for.
#[derive(Debug)]
struct Incomplete {
    /// Those that have asked, and what for, as far as it was not passed up.
    held: Requesters<()>,
    /// Those whose requests were passed up.
    passed_up: Ranks,
    since: Instant,
    /// The last response list that all had read of which something is held, when they sent it.
    seen: u64,
}

impl HeldRequests {
    pub(super) fn new(id: ProcessSetId, members: Ranks, place: &TreePosition) -> Self {
        let children = place.children.iter();
        let behind = children.filter(|child| child.below.first_common(&members).is_some());
        let mut seen: BTreeMap<Rank, u64> = behind.map(|child| (child.rank, 0)).collect();
        if members.contains(place.rank) {
            seen.insert(place.rank, 0);
        }
        Self {
            id,
            members,
            joined: Ranks::default(),
            names: HashMap::new(),
            tensors: HashMap::new(),
            ages: VecDeque::new(),
            seen,
            told_seen: 0,
        }
    }

    pub(super) fn members(&self) -> &Ranks {
        &self.members
    }

    /// Takes in a neighbour's requests; what is to be passed up goes into the outbox.
    pub(super) fn take_in(
        &mut self,
        from: Rank,
        list: SharedRequestList,
        now: Instant,
        outbox: &mut Vec<SharedRequestList>,
    ) {
        let ranks = &list.ranks;
        for id in list.cached {
            let form = RequestForm::Cached(id, ());
            match self.names.get(&id).map(Arc::clone) {
                Some(name) => self.ask(from, &name, ranks, form, now, outbox),
                // Forgotten while this was on its way; the coordinator still knows.
                None => self.pass_up(ranks, form, outbox),
            }
        }
        for shared in list.requests {
            if shared.request.kind == OpKind::Join {
                self.join(ranks, shared, outbox);
                continue;
            }
            let name = Arc::clone(&shared.request.name);
            self.ask(from, &name, ranks, RequestForm::Full(shared), now, outbox);
        }
    }

    /// All ranks behind a neighbour have read the response lists up to `seen`.
    pub(super) fn acknowledge(&mut self, from: Rank, seen: u64) {
        if let Some(last) = self.seen.get_mut(&from) {
            *last = seen.max(*last);
        }
    }

    /// The last response list that all ranks below have read, if the parent does not know of it.
    pub(super) fn newly_seen(&mut self) -> Option<u64> {
        let held = self.tensors.values();
        let held = held.filter(|tensor| !tensor.held.is_empty());
        let held = held.map(|tensor| tensor.seen);
        let seen = self.seen.values().copied().chain(held).min()?;
        (seen > std::mem::replace(&mut self.told_seen, seen)).then_some(seen)
    }

    /// Since when the oldest tensor is held.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let mut held = self.ages.iter().filter(|age| self.is_held(age));
        held.next().map(|&(since, _)| since)
    }

    /// Passes up what has been held for too long.
    pub(super) fn release_overdue(
        &mut self,
        hold: Duration,
        now: Instant,
        outbox: &mut Vec<SharedRequestList>,
    ) {
        while let Some(age) = self.ages.front() {
            let overdue = now.saturating_duration_since(age.0) >= hold;
            if self.is_held(age) && !overdue {
                return;
            }
            if let Some((_, name)) = self.ages.pop_front()
                && overdue
            {
                self.release(&name, outbox);
            }
        }
    }

    /// Passes up everything that some ranks have asked for.
    pub(super) fn release_what_these_asked(
        &mut self,
        ranks: &Ranks,
        outbox: &mut Vec<SharedRequestList>,
    ) {
        let is_theirs = |(_, name): &&(Instant, Arc<str>)| {
            let tensor = self.tensors.get(name);
            tensor.is_some_and(|tensor| tensor.held.first_common(ranks).is_some())
        };
        let names: Vec<Arc<str>> = self
            .ages
            .iter()
            .filter(is_theirs)
            .map(|(_, name)| Arc::clone(name))
            .collect();
        for name in names {
            self.release(&name, outbox);
        }
    }

    /// Remembers the numbers and joins of a response list.
    pub(super) fn learn(&mut self, response_list: &ResponseList) {
        for id in &response_list.evicted {
            self.names.remove(id);
        }
        let operations = response_list
            .responses
            .iter()
            .filter_map(|response| match response {
                Response::Execute(operation) => Some(&operation.tensors),
                _ => None,
            });
        for reference in operations.flatten() {
            if let TensorRef::New(spec) = reference
                && let Some(id) = spec.cache
            {
                self.names.insert(id, Arc::clone(&spec.name));
            }
        }
        if ends_join(response_list) {
            self.joined = Ranks::default();
        }
    }

    /// Forgets all that was asked for: it belongs to a schedule now.
    pub(super) fn forget_tensors(&mut self) {
        self.tensors.clear();
        self.ages.clear();
        self.joined = Ranks::default();
    }

    fn ask(
        &mut self,
        from: Rank,
        name: &Arc<str>,
        ranks: &Ranks,
        form: RequestForm<()>,
        now: Instant,
        outbox: &mut Vec<SharedRequestList>,
    ) {
        let twice = self.tensors.get(name).is_some_and(|tensor| {
            tensor.held.first_common(ranks).is_some()
                || tensor.passed_up.first_common(ranks).is_some()
        });
        // Requests that break the rules, or are not merged, are left to the coordinator.
        if twice
            || ranks.common(&self.members) != ranks.len()
            || ranks.first_common(&self.joined).is_some()
        {
            self.pass_up(ranks, form, outbox);
            return;
        }
        let seen = self.seen.get(&from).copied().unwrap_or(0);
        let ages = &mut self.ages;
        let tensor = self.tensors.entry(Arc::clone(name)).or_insert_with(|| {
            ages.push_back((now, Arc::clone(name)));
            Incomplete {
                held: Requesters::default(),
                passed_up: Ranks::default(),
                since: now,
                seen,
            }
        });
        tensor.seen = tensor.seen.min(seen);
        tensor.held.add(ranks, form);
        let late = !tensor.passed_up.is_empty();
        if late || tensor.is_complete(&self.members, &self.joined) {
            self.release(name, outbox);
        }
    }

    /// Passes up what is held of a tensor, and forgets the tensor if no rank is missing.
    fn release(&mut self, name: &Arc<str>, outbox: &mut Vec<SharedRequestList>) {
        let Some(tensor) = self.tensors.get_mut(name) else {
            return;
        };
        let held = std::mem::take(&mut tensor.held);
        for group in held.groups() {
            tensor.passed_up.insert_all(&group.ranks);
        }
        if tensor.is_complete(&self.members, &self.joined) {
            self.tensors.remove(name);
        }
        for group in held.into_groups() {
            self.pass_up(&group.ranks, group.form, outbox);
        }
    }

    /// Ranks have nothing more to give, and are not waited for until the join is over.
    fn join(&mut self, ranks: &Ranks, shared: SharedRequest, outbox: &mut Vec<SharedRequestList>) {
        self.release_what_these_asked(ranks, outbox);
        let list = SharedRequestList {
            process_set: self.id,
            ranks: ranks.clone(),
            requests: vec![shared],
            ..SharedRequestList::default()
        };
        append(outbox, list);
        self.joined.insert_all(ranks);
        let complete = |tensor: &Incomplete| tensor.is_complete(&self.members, &self.joined);
        let tensors = self.tensors.iter();
        let mut names: Vec<(Instant, Arc<str>)> = tensors
            .filter(|(_, tensor)| complete(tensor))
            .map(|(name, tensor)| (tensor.since, Arc::clone(name)))
            .collect();
        names.sort_unstable();
        for (_, name) in names {
            self.release(&name, outbox);
        }
    }

    /// Asks the parent, together with what the same ranks have just asked.
    fn pass_up(&self, ranks: &Ranks, form: RequestForm<()>, outbox: &mut Vec<SharedRequestList>) {
        let fits = |list: &SharedRequestList| list.process_set == self.id && list.ranks == *ranks;
        if !outbox
            .last()
            .is_some_and(|list| fits(list) && is_open(list))
        {
            outbox.push(SharedRequestList {
                process_set: self.id,
                ranks: ranks.clone(),
                ..SharedRequestList::default()
            });
        }
        if let Some(list) = outbox.last_mut() {
            match form {
                RequestForm::Cached(id, ()) => list.cached.push(id),
                RequestForm::Full(shared) => list.requests.push(shared),
            }
        }
    }

    fn is_held(&self, (since, name): &(Instant, Arc<str>)) -> bool {
        let tensor = self.tensors.get(name);
        tensor.is_some_and(|tensor| tensor.since == *since && !tensor.held.is_empty())
    }
}

impl Incomplete {
    /// Whether every one of `members` that has not joined has asked.
    fn is_complete(&self, members: &Ranks, joined: &Ranks) -> bool {
        let asked = self.held.len() + self.passed_up.len();
        let absent = self.held.common(joined) + self.passed_up.common(joined);
        asked - absent == members.len() - joined.len()
    }
}
