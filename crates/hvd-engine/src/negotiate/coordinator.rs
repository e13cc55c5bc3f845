//! The negotiation of one process set: which ranks are ready, whether they agree, what happens
//! next.
//!
//! A pure machine: messages go in with [`Coordinator::receive`], response lists come out of
//! [`Coordinator::decide`]. The time is an argument and only matters if a least time between
//! response lists was asked for. Answers depend on nothing but the order of the messages.
//!
//! - `READY-1` a tensor is ready when every member that has not joined has asked for it, once each.
//! - `READY-2` tensors are answered in the order in which they became ready.
//! - `READY-3` whatever the members ask for, each of them gets exactly one answer for it.
//! - `JOIN-1` when the last member joins, everything still waiting is answered, then the join.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::{OpKind, ProcessSetId, Rank, Ranks, Topology};
use hvd_wire::{
    CacheId, Request, RequestList, Response, ResponseList, SharedRequestList, TensorRef, Tuned,
};

use super::agreement::Agreement;
use super::agreement_cache::AgreementCache;
use super::pending_tensor::PendingTensor;
use super::requesters::{RequestForm, RequesterGroup};
use super::validate::{Claim, Party, validate};
use crate::autotune::{Autotuner, ParameterChange, Parameters};
use crate::fusion::batches::{Agreed, GroupFusion, fuse};
use crate::schedule::coordinator::ScheduleCoordinator;
use crate::schedule::detector::StepDetector;
use crate::stall::{StallInspector, StallOptions, StallReport};
use crate::timeline::Timeline;

mod schedule;

/// Options of all coordinators of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoordinatorOptions {
    /// The topology of the job.
    pub(crate) topology: Topology,
    pub(crate) fusion_threshold: u64,
    pub(crate) group_fusion: GroupFusion,
    pub(crate) join_average: JoinDivisor,
    pub(crate) cache_capacity: usize,
    /// Least time between two response lists.
    pub(crate) cycle_time: Duration,
    /// Whether steps that are always the same get a schedule.
    pub(crate) schedules: bool,
    /// How long a tensor may wait for some ranks; `None` for ever.
    pub(crate) stall: Option<StallOptions>,
    pub(crate) timeline: Timeline,
}

/// What a coordinator goes by and may change while the job runs.
#[derive(Debug, Clone, Copy)]
struct Pace {
    fusion_threshold: u64,
    cycle_time: Duration,
    cache_capacity: usize,
}

/// What an average is divided by while some ranks have joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JoinDivisor {
    /// All ranks, as if those that joined had contributed zeros.
    #[default]
    AllRanks,
    /// The ranks that really contributed.
    Contributors,
}

/// A rank broke the rules of the negotiation; the job cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("asked twice for tensor `{0}`")]
    AskedTwice(Arc<str>),
    #[error("sent the unknown cache number {}", .0.0)]
    UnknownNumber(CacheId),
    #[error("named root rank {0}, which is not in the process set")]
    UnknownRoot(Rank),
    #[error("spoke of process set {0}, which it is not in")]
    NotAMember(ProcessSetId),
    #[error("asked for tensors while a schedule runs")]
    RequestedDuringSchedule,
    #[error("spoke for ranks that are not below it in the tree")]
    NotBelow,
    #[error("sent a bad message: {0}")]
    Garbled(hvd_wire::Error),
}

/// A rank that broke the rules, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) rank: Rank,
    pub(crate) error: ProtocolError,
}

/// The state of the negotiation.
#[derive(Debug)]
pub(crate) struct Coordinator {
    id: ProcessSetId,
    /// Ascending.
    members: Arc<[Rank]>,
    /// The same as a set.
    member_set: Ranks,
    options: Arc<CoordinatorOptions>,
    /// Tensors that some members have asked for.
    waiting: HashMap<Arc<str>, PendingTensor>,
    /// Counts the tensors that were ever asked for.
    arrivals: u64,
    /// Tensors that all members have asked for, in the order in which that came about.
    ready: Vec<PendingTensor>,
    /// Members that have nothing more to give.
    joined: Ranks,
    /// The member that joined last, once all have.
    last_joined: Option<Rank>,
    cache: AgreementCache,
    stalls: Option<StallInspector>,
    sequence: u64,
    last_decision: Option<Instant>,
    pace: Pace,
    /// What the autotuner has set, here or elsewhere.
    adopted: Option<Parameters>,
    /// For the global set, while something is to be tuned.
    autotuner: Option<Autotuner>,
    /// For the global set, where schedules are allowed.
    detector: Option<StepDetector>,
    schedule: ScheduleCoordinator,
}

impl Coordinator {
    pub(crate) fn new(
        id: ProcessSetId,
        members: Vec<Rank>,
        options: Arc<CoordinatorOptions>,
    ) -> Self {
        let cache = AgreementCache::new(options.cache_capacity, members.len());
        let place = |&rank: &Rank| (rank, options.topology.host_name(rank).into());
        let inspector = |limits| StallInspector::new(limits, members.iter().map(place));
        let stalls = options.stall.map(inspector);
        let pace = Pace {
            fusion_threshold: options.fusion_threshold,
            cycle_time: options.cycle_time,
            cache_capacity: options.cache_capacity,
        };
        let schedules = options.schedules && id == ProcessSetId::GLOBAL;
        Self {
            id,
            detector: schedules.then(StepDetector::new),
            schedule: ScheduleCoordinator::new(members.len()),
            member_set: members.iter().copied().collect(),
            members: members.into(),
            options,
            waiting: HashMap::new(),
            arrivals: 0,
            ready: Vec::new(),
            joined: Ranks::default(),
            last_joined: None,
            cache,
            stalls,
            sequence: 0,
            last_decision: None,
            pace,
            adopted: None,
            autotuner: None,
        }
    }

    /// Tunes the job by what is decided here from now on.
    pub(crate) fn autotune(&mut self, autotuner: Autotuner) {
        self.autotuner = Some(autotuner);
    }

    /// The parameters it goes by, if they were ever tuned.
    pub(crate) fn adopted(&self) -> Option<Parameters> {
        self.adopted
    }

    /// Goes by other parameters from now on. What the cache has to forget goes into the next
    /// response list.
    pub(crate) fn adopt(&mut self, parameters: Parameters) {
        self.adopted = Some(parameters);
        self.pace = Pace {
            fusion_threshold: parameters.fusion_threshold,
            cycle_time: parameters.cycle_time,
            cache_capacity: if parameters.cache {
                self.options.cache_capacity
            } else {
                0
            },
        };
    }

    /// Whom the response lists are for, ascending.
    pub(crate) fn members(&self) -> &Arc<[Rank]> {
        &self.members
    }

    /// Takes in a member's request list.
    pub(crate) fn receive(
        &mut self,
        rank: Rank,
        message: RequestList,
        now: Instant,
    ) -> Result<(), ProtocolError> {
        let position = self.position(rank)?;
        let seen = message.seen;
        let breach = |breach: Breach| breach.error;
        self.receive_shared(SharedRequestList::of(rank, message), seen, now)
            .map_err(breach)?;
        self.cache.acknowledge(position..position + 1, seen);
        Ok(())
    }

    /// Takes in requests that some members share, which had read no response list after `read`.
    pub(crate) fn receive_shared(
        &mut self,
        list: SharedRequestList,
        read: u64,
        now: Instant,
    ) -> Result<(), Breach> {
        let ranks = &list.ranks;
        let strangers = |rank: &Rank| !self.member_set.contains(*rank);
        if ranks.common(&self.member_set) != ranks.len() {
            let rank = ranks.iter().find(strangers).unwrap_or_default();
            let error = ProtocolError::NotAMember(self.id);
            return Err(Breach { rank, error });
        }
        let speaker = ranks.first().unwrap_or_default();
        let breach = |error| Breach {
            rank: speaker,
            error,
        };
        if let Some(halted) = list.halted {
            self.record_halt(ranks, halted);
        }
        if self.schedule.is_running() && list.has_requests() {
            // The requesters keep it (`SCHEDULE-3`).
            return if self.schedule.precedes_schedule(read) {
                Ok(())
            } else {
                Err(breach(ProtocolError::RequestedDuringSchedule))
            };
        }
        let mut last = None;
        for id in list.cached {
            let unknown = || breach(ProtocolError::UnknownNumber(id));
            let agreement = Arc::clone(self.cache.resolve(id).ok_or_else(unknown)?);
            let name = last.insert(Arc::clone(&agreement.name));
            let form = RequestForm::Cached(id, agreement);
            self.record(ranks, Arc::clone(name), form, now)?;
        }
        for shared in list.requests {
            let request = &shared.request;
            if request.kind == OpKind::Join {
                for rank in ranks.iter() {
                    let error = |error| Breach { rank, error };
                    self.join(rank, &request.name).map_err(error)?;
                }
                continue;
            }
            self.check_root(request).map_err(breach)?;
            let name = last.insert(Arc::clone(&request.name));
            self.record(ranks, Arc::clone(name), RequestForm::Full(shared), now)?;
        }
        if let (Some(stalls), Some(last)) = (&mut self.stalls, last) {
            stalls.last_requested(ranks, &last, now);
        }
        Ok(())
    }

    /// Records that these members have read the response lists up to `seen`.
    pub(crate) fn acknowledge(&mut self, ranks: &Ranks, seen: u64) {
        for &(first, end) in ranks.spans() {
            let position = |number| self.members.partition_point(|rank| rank.number() < number);
            self.cache.acknowledge(position(first)..position(end), seen);
        }
    }

    fn check_root(&self, request: &Request) -> Result<(), ProtocolError> {
        if request.kind == OpKind::Broadcast && !self.member_set.contains(request.root) {
            return Err(ProtocolError::UnknownRoot(request.root));
        }
        Ok(())
    }

    /// The next response list, if there is anything to answer and it is due; in any case if it
    /// is `urgent`.
    pub(crate) fn decide(&mut self, now: Instant, urgent: bool) -> Option<ResponseList> {
        let held_back = self.due().is_some_and(|due| now < due);
        if !urgent && (!self.has_something_to_say() || held_back) {
            return None;
        }
        self.last_decision = Some(now);
        self.sequence += 1;
        let mut evicted = Vec::new();
        self.cache
            .resize(self.pace.cache_capacity, self.sequence, &mut evicted);
        let mut responses = Vec::new();
        let mut agreed = Vec::new();
        for waiting in std::mem::take(&mut self.ready) {
            match self.judge(waiting, &mut evicted) {
                Ok(tensor) => agreed.push(tensor),
                Err(refusal) => responses.push(refusal),
            }
        }
        tell_evicted_in_full(&mut agreed, &evicted);
        let tuned = self.retune(now, &agreed);
        let threshold = self.pace.fusion_threshold;
        let schedule = if urgent || !responses.is_empty() || self.last_joined.is_some() {
            None
        } else {
            self.schedule(&agreed)
        };
        let operations = fuse(agreed, threshold, self.options.group_fusion);
        responses.extend(operations.into_iter().map(Response::Execute));
        responses.extend(
            self.last_joined
                .take()
                .map(|last| Response::Joined { last }),
        );
        Some(ResponseList {
            process_set: self.id,
            sequence: self.sequence,
            evicted,
            tuned,
            responses,
            schedule,
            ..ResponseList::default()
        })
    }

    /// Asks the autotuner, if there is one, for parameters for these tensors and all later ones.
    fn retune(&mut self, now: Instant, agreed: &[Agreed]) -> Option<Tuned> {
        let autotuner = self.autotuner.as_mut()?;
        let allreduced = agreed.iter().map(|tensor| &tensor.agreement);
        let tensors: Vec<(&Arc<str>, u64)> = allreduced
            .filter(|agreement| agreement.kind == OpKind::Allreduce)
            .map(|agreement| (&agreement.name, agreement.bytes()))
            .collect();
        let ParameterChange { parameters, last } = autotuner.observe(now, &tensors)?;
        if last {
            self.autotuner = None;
        }
        self.adopt(parameters);
        Some(tuned(&parameters))
    }

    /// When to look for stalled tensors again.
    pub(crate) fn next_stall_check(&self) -> Option<Instant> {
        self.stalls.as_ref()?.next_check()
    }

    /// Looks for tensors that some members wait for and others have not asked for.
    pub(crate) fn look_for_stalls(&mut self, now: Instant) -> Option<StallReport> {
        Some(self.stalls.as_mut()?.look(now))
    }

    /// When a response list that is being held back becomes due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let last = self.last_decision.filter(|_| self.has_something_to_say());
        last.map(|last| last + self.pace.cycle_time)
    }

    fn has_something_to_say(&self) -> bool {
        !self.ready.is_empty() || self.last_joined.is_some()
    }

    fn position(&self, rank: Rank) -> Result<usize, ProtocolError> {
        let stranger = |_| ProtocolError::NotAMember(self.id);
        self.members.binary_search(&rank).map_err(stranger)
    }

    fn record(
        &mut self,
        ranks: &Ranks,
        name: Arc<str>,
        form: RequestForm<Arc<Agreement>>,
        now: Instant,
    ) -> Result<(), Breach> {
        let arrivals = &mut self.arrivals;
        let entry = self.waiting.entry(Arc::clone(&name));
        let waiting = entry.or_insert_with(|| {
            *arrivals += 1;
            PendingTensor::new(*arrivals)
        });
        if let Some(rank) = waiting.requesters.first_common(ranks) {
            let error = ProtocolError::AskedTwice(name);
            return Err(Breach { rank, error });
        }
        let kind = form.kind();
        waiting.requesters.add(ranks, form);
        let is_ready = waiting.is_ready(self.members.len(), &self.joined);
        self.observe_asked(&name, ranks, kind, now);
        if is_ready && let Some(waiting) = self.waiting.remove(&name) {
            self.make_ready(&name, waiting);
        }
        Ok(())
    }

    fn observe_asked(&mut self, name: &Arc<str>, ranks: &Ranks, kind: OpKind, now: Instant) {
        if let Some(stalls) = &mut self.stalls {
            stalls.requested(name, ranks, now);
        }
        let timeline = &self.options.timeline;
        if !timeline.is_recording() {
            return;
        }
        timeline.negotiate_start(name, kind);
        for rank in ranks.iter() {
            let position = self
                .position(rank)
                .map_or(0, |position| Rank::from_index(position).number());
            timeline.rank_ready(name, position);
        }
    }

    fn make_ready(&mut self, name: &Arc<str>, waiting: PendingTensor) {
        if let Some(stalls) = &mut self.stalls {
            stalls.answered(name);
        }
        self.options.timeline.negotiate_end(name);
        self.ready.push(waiting);
    }

    /// A member has nothing more to give; that may be what others were waiting for.
    fn join(&mut self, rank: Rank, name: &Arc<str>) -> Result<(), ProtocolError> {
        if self.joined.contains(rank) {
            return Err(ProtocolError::AskedTwice(Arc::clone(name)));
        }
        self.joined.insert(rank);
        let (members, joined) = (self.members.len(), &self.joined);
        let complete = |waiting: &PendingTensor| waiting.is_ready(members, joined);
        let mut ready: Vec<(Arc<str>, PendingTensor)> = self
            .waiting
            .extract_if(|_, waiting| complete(waiting))
            .collect();
        ready.sort_by_key(|(_, waiting)| waiting.arrival);
        for (name, waiting) in ready {
            self.make_ready(&name, waiting);
        }
        let over = self.joined.len() == self.members.len();
        if over {
            self.last_joined = Some(rank);
            self.joined = Ranks::default();
        }
        match &mut self.stalls {
            Some(stalls) if over => stalls.join_over(),
            Some(stalls) => stalls.joined(rank),
            None => {}
        }
        Ok(())
    }

    fn judge(
        &mut self,
        waiting: PendingTensor,
        evicted: &mut Vec<CacheId>,
    ) -> Result<Agreed, Response> {
        let contributors = waiting.requesters.len();
        let missing = self.members.len() - contributors;
        let divisor = self.divisor(contributors);
        if let Some(agreed) = self.recall(&waiting, missing, divisor) {
            return Ok(agreed);
        }
        let groups = waiting.requesters.into_groups();
        let claims: Vec<Claim> = groups.iter().map(|group| self.claim(group)).collect();
        let agreement = match validate(&claims, missing) {
            Ok(()) => claims
                .first()
                .and_then(|claim| Agreement::of(&claim.request, &groups, &self.members))
                .map(Arc::new),
            Err(mismatch) => return Err(refusal(&claims, mismatch.to_string())),
        };
        let Some(agreement) = agreement else {
            return Err(refusal(&claims, "no rank asked for it".to_owned()));
        };
        let mut spec = agreement.spec();
        if agreement.kind != OpKind::Barrier && missing == 0 {
            spec.cache = self.cache.remember(&agreement, self.sequence, evicted);
        }
        let reference = TensorRef::New(spec);
        Ok(Agreed {
            agreement,
            reference,
            divisor,
        })
    }

    fn divisor(&self, contributors: usize) -> u32 {
        let count = match self.options.join_average {
            JoinDivisor::AllRanks => self.members.len(),
            JoinDivisor::Contributors => contributors,
        };
        Rank::from_index(count).number()
    }

    /// The remembered agreement, if every requester named the same one, it is still remembered, and
    /// it can do without the members that did not ask.
    fn recall(&mut self, waiting: &PendingTensor, missing: usize, divisor: u32) -> Option<Agreed> {
        let (id, agreement) = waiting.unanimous_number()?;
        let possible = missing == 0 || matches!(agreement.kind, OpKind::Allreduce | OpKind::Adasum);
        if !possible || !self.cache.is_live(id) {
            return None;
        }
        let agreement = Arc::clone(agreement);
        self.cache.touch(id);
        let reference = TensorRef::Cached(id);
        Some(Agreed {
            agreement,
            reference,
            divisor,
        })
    }

    /// What a group of members asked for, by the one that asked first; a number is spelled out.
    fn claim(&self, group: &RequesterGroup<Arc<Agreement>>) -> Claim {
        let rank = group.speaker;
        let host = self.options.topology.host_name(rank).to_owned();
        let request = match &group.form {
            RequestForm::Full(shared) => shared.request.clone(),
            RequestForm::Cached(_, agreement) => {
                agreement.request_of(self.position(rank).unwrap_or(0))
            }
        };
        let party = Party { rank, host };
        Claim { party, request }
    }
}

/// The part of the parameters that all ranks have to know.
fn tuned(parameters: &Parameters) -> Tuned {
    Tuned {
        chunk_bytes: parameters.chunk_bytes,
        small_allreduce_bytes: parameters.small_allreduce_bytes,
        hierarchical_allreduce: parameters.hierarchy.allreduce,
        hierarchical_allgather: parameters.hierarchy.allgather,
    }
}

/// An agreement may have been evicted by a later one of the same response list. Ranks forget first
/// and execute then, so such a tensor is described in full and without a number.
fn tell_evicted_in_full(agreed: &mut [Agreed], evicted: &[CacheId]) {
    for tensor in agreed {
        let id = match &tensor.reference {
            TensorRef::Cached(id) => Some(*id),
            TensorRef::New(spec) => spec.cache,
        };
        if id.is_some_and(|id| evicted.contains(&id)) {
            tensor.reference = TensorRef::New(tensor.agreement.spec());
        }
    }
}

fn refusal(claims: &[Claim], reason: String) -> Response {
    let name = claims
        .first()
        .map_or_else(|| "".into(), |claim| Arc::clone(&claim.request.name));
    Response::Refuse { name, reason }
}

#[cfg(test)]
mod tests;
