//! Tensors that some ranks have asked for and others have not, for too long.
//!
//! A pure machine, one for each process set, fed by the coordinator: [`StallInspector::requested`]
//! when a rank asks for a tensor, [`StallInspector::answered`] when all have. The time is an
//! argument. It decides what is worth reporting and when to look again; it logs nothing and ends
//! nothing. The texts are in [`text`] and [`describe`]; [`reporter`] asks the missing ranks.
//!
//! - `STALL-1` a tensor is reported once for each time it is stalled.
//! - `STALL-2` ranks that have joined are not missed.
//! - `STALL-3` `next_check` is never later than the next stalled tensor, so a wait until then
//!   misses none.

mod describe;
pub(crate) mod reporter;
pub(crate) mod text;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::{Rank, Ranks};

/// How long a tensor may wait for some of the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StallOptions {
    /// After this time it is reported.
    pub warning: Duration,
    /// After this time, which is not shorter, the job is to end; `None` means never.
    pub shutdown: Option<Duration>,
}

/// A rank and where it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RankLocation {
    pub(crate) rank: Rank,
    pub(crate) host: Arc<str>,
}

/// One stalled tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StalledTensor {
    pub(crate) tensor: Arc<str>,
    /// Ranks that have not asked for it, in order.
    pub(crate) missing: Vec<RankLocation>,
    /// Ranks that have, in order.
    pub(crate) waiting: Vec<RankLocation>,
    /// When the first of them asked.
    pub(crate) since: Instant,
    /// How long ago that was.
    pub(crate) waited: Duration,
    /// What the missing ranks did last.
    pub(crate) last_requests: Vec<LastRequest>,
}

/// What to report about stalled tensors of one process set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StallReport {
    pub(crate) limits: StallOptions,
    /// Those to warn of now.
    pub(crate) late: Vec<StalledTensor>,
    /// Those for which the job has to end.
    pub(crate) fatal: Vec<StalledTensor>,
}

/// What a rank asked for last, if anything, and how long ago that was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRequest {
    pub(crate) rank: Rank,
    pub(crate) requested: Option<(Arc<str>, Duration)>,
}

/// Which ranks wait for which tensors, in one process set.
#[derive(Debug)]
pub(crate) struct StallInspector {
    options: StallOptions,
    /// The set's ranks, by their number in the job.
    members: BTreeMap<Rank, Arc<str>>,
    joined: BTreeSet<Rank>,
    /// What each rank asked for last, and when.
    last_requests: BTreeMap<Rank, (Arc<str>, Instant)>,
    tensors: HashMap<Arc<str>, Wait>,
    /// Nothing can become due before this. It may be early: a tensor that was answered in the
    /// meantime leaves it as it is, which costs one look in vain and saves a search an answer.
    next: Option<Instant>,
}

#[derive(Debug)]
struct Wait {
    since: Instant,
    requesters: Ranks,
    reported: bool,
}

impl StallInspector {
    /// An inspector for the given ranks and their hosts.
    pub(crate) fn new(
        options: StallOptions,
        members: impl IntoIterator<Item = (Rank, Arc<str>)>,
    ) -> Self {
        Self {
            options,
            members: members.into_iter().collect(),
            joined: BTreeSet::new(),
            last_requests: BTreeMap::new(),
            tensors: HashMap::new(),
            next: None,
        }
    }

    /// Ranks have asked for a tensor.
    pub(crate) fn requested(&mut self, name: &Arc<str>, ranks: &Ranks, now: Instant) {
        if let Some(wait) = self.tensors.get_mut(name) {
            wait.requesters.insert_all(ranks);
            return;
        }
        let wait = Wait {
            since: now,
            requesters: ranks.clone(),
            reported: false,
        };
        let due = self.due(&wait);
        self.next = [self.next, due].into_iter().flatten().min();
        self.tensors.insert(Arc::clone(name), wait);
    }

    /// Ranks have sent requests; this is the tensor that they asked for last.
    pub(crate) fn last_requested(&mut self, ranks: &Ranks, name: &Arc<str>, now: Instant) {
        for rank in ranks.iter() {
            self.last_requests.insert(rank, (Arc::clone(name), now));
        }
    }

    /// A tensor has been answered, one way or the other.
    pub(crate) fn answered(&mut self, name: &str) {
        self.tensors.remove(name);
        if self.tensors.is_empty() {
            self.next = None;
        }
    }

    /// A rank has no more data; it is not missed until [`Self::join_over`].
    pub(crate) fn joined(&mut self, rank: Rank) {
        self.joined.insert(rank);
    }

    /// All ranks have joined, and all take part again.
    pub(crate) fn join_over(&mut self) {
        self.joined.clear();
    }

    /// When to look again, if ever.
    pub(crate) fn next_check(&self) -> Option<Instant> {
        self.next
    }

    /// Everything to report now.
    pub(crate) fn look(&mut self, now: Instant) -> StallReport {
        StallReport {
            limits: self.options,
            late: self.inspect(now),
            fatal: self.fatal(now),
        }
    }

    /// Tensors whose warning time has passed and that were not reported yet, sorted by name.
    pub(crate) fn inspect(&mut self, now: Instant) -> Vec<StalledTensor> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let warning = self.options.warning;
        let mut late = Vec::new();
        for (name, wait) in &mut self.tensors {
            if !wait.reported && now.saturating_duration_since(wait.since) >= warning {
                wait.reported = true;
                late.push(Arc::clone(name));
            }
        }
        self.next = self
            .tensors
            .values()
            .filter_map(|wait| self.due(wait))
            .min();
        self.stalled(late, now)
    }

    /// The tensors for which the job is to end, sorted by name; none means it goes on.
    pub(crate) fn fatal(&self, now: Instant) -> Vec<StalledTensor> {
        let Some(shutdown) = self.options.shutdown else {
            return Vec::new();
        };
        let late = self
            .tensors
            .iter()
            .filter(|(_, wait)| now.saturating_duration_since(wait.since) >= shutdown)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        self.stalled(late, now)
    }

    /// When a tensor next has to be looked at.
    fn due(&self, wait: &Wait) -> Option<Instant> {
        let warning = (!wait.reported).then_some(self.options.warning);
        let timeout = warning.or(self.options.shutdown)?;
        wait.since.checked_add(timeout)
    }

    fn stalled(&self, mut names: Vec<Arc<str>>, now: Instant) -> Vec<StalledTensor> {
        names.sort_unstable();
        names
            .into_iter()
            .filter_map(|name| self.stalled_tensor(name, now))
            .collect()
    }

    fn last_requests(&self, rank: Rank, now: Instant) -> LastRequest {
        let ago = |(name, when): &(Arc<str>, Instant)| {
            (Arc::clone(name), now.saturating_duration_since(*when))
        };
        let requested = self.last_requests.get(&rank).map(ago);
        LastRequest { rank, requested }
    }

    fn stalled_tensor(&self, tensor: Arc<str>, now: Instant) -> Option<StalledTensor> {
        let wait = self.tensors.get(&tensor)?;
        let located = |(&rank, host): (&Rank, &Arc<str>)| RankLocation {
            rank,
            host: Arc::clone(host),
        };
        let (requesters, others): (Vec<_>, Vec<_>) = self
            .members
            .iter()
            .partition(|(rank, _)| wait.requesters.contains(**rank));
        let missed = others
            .into_iter()
            .filter(|(rank, _)| !self.joined.contains(rank));
        let missing: Vec<RankLocation> = missed.map(located).collect();
        Some(StalledTensor {
            tensor,
            last_requests: missing
                .iter()
                .map(|place| self.last_requests(place.rank, now))
                .collect(),
            missing,
            waiting: requesters.into_iter().map(located).collect(),
            since: wait.since,
            waited: now.saturating_duration_since(wait.since),
        })
    }
}

#[cfg(test)]
mod tests;
