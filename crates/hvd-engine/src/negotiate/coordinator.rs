//! Rank 0's part of the negotiation: who is ready, do they agree, what happens next.
//!
//! A pure machine: messages go in with [`Coordinator::hear`], verdicts come out of
//! [`Coordinator::decide`]. The time is an argument and only matters if a least time between
//! verdicts was asked for. Answers depend on nothing but the order of the messages.
//!
//! - `READY-1` a tensor is ready when every rank has asked for it, once each.
//! - `READY-2` tensors are answered in the order in which they became ready.
//! - `READY-3` whatever the ranks ask for, each of them gets exactly one answer for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::{OpKind, Rank};
use hvd_wire::{CacheId, Member, Ready, Request, Response, Verdict};

use super::agreement::Agreement;
use super::cache::Cache;
use super::validate::{Claim, Party, validate};
use crate::fusion::plan::{Agreed, fuse};

/// What the coordinator is told once.
#[derive(Debug, Clone)]
pub(crate) struct CoordinatorOptions {
    /// The host of every rank; its length is the size of the job.
    pub(crate) hosts: Vec<String>,
    pub(crate) fusion_threshold: u64,
    pub(crate) cache_capacity: usize,
    /// Least time between two verdicts.
    pub(crate) cycle_time: Duration,
}

/// A rank broke the rules of the negotiation; the job cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("asked twice for tensor `{0}`")]
    AskedTwice(Arc<str>),
    #[error("sent the unknown cache number {}", .0.0)]
    UnknownNumber(CacheId),
    #[error("named root rank {0}, which does not exist")]
    UnknownRoot(Rank),
}

/// The state of the negotiation.
#[derive(Debug)]
pub(crate) struct Coordinator {
    options: CoordinatorOptions,
    /// Tensors that some ranks have asked for.
    waiting: HashMap<Arc<str>, Waiting>,
    /// Tensors that all ranks have asked for, in the order in which that came about.
    ready: Vec<Waiting>,
    cache: Cache,
    sequence: u64,
    /// Who asked for the end first.
    shutdown: Option<Rank>,
    last_verdict: Option<Instant>,
}

/// Who has asked for a tensor, in the order of arrival.
#[derive(Debug, Default)]
struct Waiting {
    askers: Vec<(Rank, Asked)>,
}

#[derive(Debug)]
enum Asked {
    Number(CacheId, Arc<Agreement>),
    Request(Request),
}

impl Coordinator {
    pub(crate) fn new(options: CoordinatorOptions) -> Self {
        let cache = Cache::new(options.cache_capacity, options.hosts.len());
        Self {
            options,
            waiting: HashMap::new(),
            ready: Vec::new(),
            cache,
            sequence: 0,
            shutdown: None,
            last_verdict: None,
        }
    }

    /// Takes in what a rank has to say.
    pub(crate) fn hear(&mut self, rank: Rank, message: Ready) -> Result<(), ProtocolError> {
        if message.shutdown {
            self.shutdown.get_or_insert(rank);
        }
        for id in message.cached {
            let unknown = ProtocolError::UnknownNumber(id);
            let agreement = Arc::clone(self.cache.resolve(id).ok_or(unknown)?);
            let name = Arc::clone(&agreement.name);
            self.note(rank, name, Asked::Number(id, agreement))?;
        }
        for request in message.requests {
            if request.root.index() >= self.options.hosts.len() {
                return Err(ProtocolError::UnknownRoot(request.root));
            }
            let name = Arc::clone(&request.name);
            self.note(rank, name, Asked::Request(request))?;
        }
        self.cache.acknowledge(rank, message.seen);
        Ok(())
    }

    /// The next verdict, if there is anything to say and it is time to say it.
    pub(crate) fn decide(&mut self, now: Instant) -> Option<Verdict> {
        if !self.has_something_to_say() || self.due().is_some_and(|due| now < due) {
            return None;
        }
        self.last_verdict = Some(now);
        self.sequence += 1;
        let mut evicted = Vec::new();
        let mut refused = Vec::new();
        let mut agreed = Vec::new();
        for waiting in std::mem::take(&mut self.ready) {
            match self.judge(waiting, &mut evicted) {
                Ok(tensor) => agreed.push(tensor),
                Err(refusal) => refused.push(refusal),
            }
        }
        tell_evicted_in_full(&mut agreed, &evicted);
        let operations = fuse(agreed, self.options.fusion_threshold);
        let responses = refused
            .into_iter()
            .chain(operations.into_iter().map(Response::Execute))
            .collect();
        Some(Verdict {
            sequence: self.sequence,
            evicted,
            responses,
            shutdown: self.shutdown,
        })
    }

    /// When a verdict that is being held back becomes due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let held_back = self.has_something_to_say() && self.shutdown.is_none();
        self.last_verdict
            .filter(|_| held_back)
            .map(|last| last + self.options.cycle_time)
    }

    fn has_something_to_say(&self) -> bool {
        self.shutdown.is_some() || !self.ready.is_empty()
    }

    fn note(&mut self, rank: Rank, name: Arc<str>, asked: Asked) -> Result<(), ProtocolError> {
        let waiting = self.waiting.entry(Arc::clone(&name)).or_default();
        if waiting.askers.iter().any(|&(asker, _)| asker == rank) {
            return Err(ProtocolError::AskedTwice(name));
        }
        waiting.askers.push((rank, asked));
        if waiting.askers.len() == self.options.hosts.len() {
            self.ready.extend(self.waiting.remove(&name));
        }
        Ok(())
    }

    fn judge(&mut self, waiting: Waiting, evicted: &mut Vec<CacheId>) -> Result<Agreed, Response> {
        if let Some(agreed) = self.recall(&waiting) {
            return Ok(agreed);
        }
        let claims = self.claims(waiting);
        let size = self.options.hosts.len();
        let agreement = match validate(&claims, 0) {
            Ok(()) => Agreement::of(&claims, size).map(Arc::new),
            Err(mismatch) => return Err(refusal(&claims, mismatch.to_string())),
        };
        let Some(agreement) = agreement else {
            return Err(refusal(&claims, "nobody asked for it".to_owned()));
        };
        let mut plan = agreement.plan();
        if agreement.kind != OpKind::Barrier {
            plan.cache = self.cache.remember(&agreement, self.sequence, evicted);
        }
        Ok(Agreed {
            agreement,
            member: Member::New(plan),
        })
    }

    /// The remembered agreement, if every rank named the same one and it is still remembered.
    fn recall(&mut self, waiting: &Waiting) -> Option<Agreed> {
        let mut numbers = waiting.askers.iter().map(|(_, asked)| match asked {
            Asked::Number(id, agreement) => Some((*id, agreement)),
            Asked::Request(_) => None,
        });
        let (id, agreement) = numbers.next()??;
        let unanimous = numbers.all(|other| other.is_some_and(|(other, _)| other == id));
        if !unanimous || !self.cache.is_live(id) {
            return None;
        }
        let agreement = Arc::clone(agreement);
        self.cache.touch(id);
        Some(Agreed {
            agreement,
            member: Member::Known(id),
        })
    }

    /// What each rank asked for, numbers spelled out.
    fn claims(&self, waiting: Waiting) -> Vec<Claim> {
        let claim = |(rank, asked): (Rank, Asked)| {
            let host = self.options.hosts[rank.index()].clone();
            let request = match asked {
                Asked::Request(request) => request,
                Asked::Number(_, agreement) => agreement.request_of(rank),
            };
            Claim {
                party: Party { rank, host },
                request,
            }
        };
        waiting.askers.into_iter().map(claim).collect()
    }
}

/// An agreement may have been evicted by a later one of the same verdict. Ranks forget first and
/// execute then, so such a tensor is told in full and without a number.
fn tell_evicted_in_full(agreed: &mut [Agreed], evicted: &[CacheId]) {
    for tensor in agreed {
        let id = match &tensor.member {
            Member::Known(id) => Some(*id),
            Member::New(plan) => plan.cache,
        };
        if id.is_some_and(|id| evicted.contains(&id)) {
            tensor.member = Member::New(tensor.agreement.plan());
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
