//! One rank without an engine thread: what it announces, hears, passes on and is answered. Messages
//! are bytes, encoded and decoded as on a wire.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::{OpKind, ProcessSetId, Rank};
#[cfg(test)]
use hvd_wire::SetChange;
use hvd_wire::{Gathered, Ready, Request, Response, SetVerdict, Verdict};

use crate::execute::team::Team;
use crate::handle::{Completer, Completion};
use crate::local_set::LocalSet;
use crate::negotiate::coordinator::Breach;
use crate::negotiate::hub::{Addressed, Hub};
use crate::negotiate::relay::Relay;
use crate::negotiate::tree::Place;
use crate::queue::Entry;
use crate::submit::Submission;
use crate::tensor::Source;
use crate::{Error, Result};

/// A message to a neighbour.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) to: Rank,
    pub(crate) bytes: Arc<[u8]>,
}

/// What became of something that a rank asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Executed {
        set: ProcessSetId,
        name: Arc<str>,
        kind: OpKind,
        divisor: u32,
        first_dimensions: Vec<u64>,
        /// Whether this rank had asked for it.
        asked: bool,
    },
    Refused {
        set: ProcessSetId,
        name: Arc<str>,
        reason: String,
    },
    Joined(ProcessSetId, Rank),
    Sets(SetVerdict),
    ShutDown(Rank),
}

/// One rank.
#[derive(Debug)]
pub(crate) struct Node {
    place: Place,
    voice: Voice,
    sets: BTreeMap<ProcessSetId, LocalSet>,
    outgoing: Vec<Letter>,
    answers: Vec<Answer>,
}

/// How a rank takes part in the negotiation.
#[derive(Debug)]
enum Voice {
    Root(Box<Hub>),
    Relay(Box<Relay>),
    Leaf,
}

impl Node {
    /// A rank at its place; `everybody` are all ranks, `hub` is there for rank 0.
    pub(crate) fn new(
        place: Place,
        everybody: &Arc<[Rank]>,
        hub: Option<Hub>,
        hold: Duration,
    ) -> Self {
        let voice = match hub {
            Some(hub) => Voice::Root(Box::new(hub)),
            None if place.children.is_empty() => Voice::Leaf,
            None => Voice::Relay(Box::new(Relay::new(place.clone(), hold))),
        };
        let id = ProcessSetId::GLOBAL;
        Self {
            place,
            voice,
            sets: BTreeMap::from([(id, local_set(id, Arc::clone(everybody)))]),
            outgoing: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Submits operations on a process set.
    pub(crate) fn submit(
        &mut self,
        id: ProcessSetId,
        requests: Vec<Request>,
        now: Instant,
    ) -> Result<()> {
        let unknown = || Error::Internal(format!("not in process set {id}"));
        let set = self.sets.get_mut(&id).ok_or_else(unknown)?;
        let mut message = set.announcement();
        for request in requests {
            let Request {
                kind, dtype, shape, ..
            } = &request;
            let nothing = Source::owned(Vec::new());
            let submission = Submission {
                process_set: id,
                ..Submission::new(*kind, *dtype, shape.clone(), nothing)
            };
            let completer = Completer::new(&Arc::new(Completion::default()));
            set.announce(Entry::new(request, submission, completer), &mut message);
        }
        self.tell(message, now)
    }

    /// Asks for changes of the process sets, or for the end.
    #[cfg(test)]
    pub(crate) fn wish(
        &mut self,
        changes: Vec<SetChange>,
        shutdown: bool,
        now: Instant,
    ) -> Result<()> {
        let global = self.sets.get(&ProcessSetId::GLOBAL);
        let message = Ready {
            changes,
            shutdown,
            ..global.map(LocalSet::announcement).unwrap_or_default()
        };
        self.tell(message, now)
    }

    /// Takes in a message.
    pub(crate) fn hear(&mut self, from: Rank, bytes: &Arc<[u8]>, now: Instant) -> Result<()> {
        if self.place.parent == Some(from) {
            return self.hear_verdict(bytes);
        }
        let child = self.place.children.iter().find(|child| child.rank == from);
        let stranger = || Error::Internal(format!("rank {from} is no neighbour"));
        let child = child.ok_or_else(stranger)?;
        let leaf = child.is_leaf();
        match &mut self.voice {
            Voice::Root(hub) if leaf => hub
                .hear(from, Ready::decode(bytes).map_err(garbled)?, now)
                .map_err(|error| broken(&Breach { rank: from, error })),
            Voice::Root(hub) => {
                let message = Gathered::decode(bytes).map_err(garbled)?;
                let result = hub.hear_gathered(&child.below, message, now);
                result.map_err(|breach| broken(&breach))
            }
            Voice::Relay(relay) if leaf => {
                let message = Ready::decode(bytes).map_err(garbled)?;
                let result = relay.hear_ready(from, message, now);
                result.map_err(|breach| broken(&breach))
            }
            Voice::Relay(relay) => {
                let message = Gathered::decode(bytes).map_err(garbled)?;
                let result = relay.hear(from, message, now);
                result.map_err(|breach| broken(&breach))
            }
            Voice::Leaf => Err(stranger()),
        }
    }

    /// Decides or passes on what can be decided or passed on now.
    pub(crate) fn turn(&mut self, now: Instant) -> Result<()> {
        match &mut self.voice {
            Voice::Root(hub) => {
                for Addressed { members, verdict } in hub.decide(now) {
                    let bytes = encoded(|out| verdict.encode(out));
                    for to in self.place.towards(&members) {
                        let bytes = Arc::clone(&bytes);
                        self.outgoing.push(Letter { to, bytes });
                    }
                    if members.binary_search(&self.place.rank).is_ok() {
                        carry_out(verdict, self.place.rank, &mut self.sets, &mut self.answers)?;
                    }
                }
            }
            Voice::Relay(relay) => {
                if let (Some(message), Some(to)) = (relay.take_upward(now), self.place.parent) {
                    let bytes = encoded(|out| message.encode(out));
                    self.outgoing.push(Letter { to, bytes });
                }
            }
            Voice::Leaf => {}
        }
        Ok(())
    }

    /// When a turn is due even if nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.voice {
            Voice::Root(hub) => hub.due(),
            Voice::Relay(relay) => relay.due(),
            Voice::Leaf => None,
        }
    }

    /// On rank 0: what there is to say about stalled tensors.
    #[cfg(test)]
    pub(crate) fn look_for_stalls(&mut self, now: Instant) -> Vec<crate::stall::StallReport> {
        match &mut self.voice {
            Voice::Root(hub) => hub.look_for_stalls(now),
            _ => Vec::new(),
        }
    }

    pub(crate) fn take_outgoing(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.outgoing)
    }

    pub(crate) fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    fn tell(&mut self, message: Ready, now: Instant) -> Result<()> {
        let rank = self.place.rank;
        match &mut self.voice {
            Voice::Root(hub) => hub
                .hear(rank, message, now)
                .map_err(|error| broken(&Breach { rank, error })),
            Voice::Relay(relay) => {
                let result = relay.hear_ready(rank, message, now);
                result.map_err(|breach| broken(&breach))
            }
            Voice::Leaf => {
                let bytes = encoded(|out| message.encode(out));
                let parent = self.place.parent.into_iter();
                self.outgoing.extend(parent.map(|to| Letter {
                    to,
                    bytes: Arc::clone(&bytes),
                }));
                Ok(())
            }
        }
    }

    fn hear_verdict(&mut self, bytes: &Arc<[u8]>) -> Result<()> {
        let verdict = Verdict::decode(bytes).map_err(garbled)?;
        if let Voice::Relay(relay) = &mut self.voice {
            let route = relay.route(&verdict);
            for to in route.children {
                let bytes = Arc::clone(bytes);
                self.outgoing.push(Letter { to, bytes });
            }
            if !route.mine {
                return Ok(());
            }
        }
        carry_out(verdict, self.place.rank, &mut self.sets, &mut self.answers)
    }
}

/// What the cycle does with a verdict, without executing anything.
fn carry_out(
    verdict: Verdict,
    me: Rank,
    sets: &mut BTreeMap<ProcessSetId, LocalSet>,
    answers: &mut Vec<Answer>,
) -> Result<()> {
    let id = verdict.process_set;
    let stranger = || Error::Internal(format!("a verdict on process set {id} came here"));
    let set = sets.get_mut(&id).ok_or_else(stranger)?;
    set.begin(verdict.sequence, &verdict.evicted);
    for response in verdict.responses {
        match response {
            Response::Execute(operation) => {
                let executed = |task: crate::execute::Task| Answer::Executed {
                    set: id,
                    name: Arc::clone(&task.plan.name),
                    kind: operation.kind,
                    divisor: operation.divisor,
                    first_dimensions: task.plan.first_dimensions.clone(),
                    asked: task.entry.is_some(),
                };
                answers.extend(set.tasks(&operation)?.into_iter().map(executed));
            }
            Response::Refuse { name, reason } => {
                set.refused(&name)?;
                answers.push(Answer::Refused {
                    set: id,
                    name,
                    reason,
                });
            }
            Response::Joined { last } => {
                set.joined()?;
                answers.push(Answer::Joined(id, last));
            }
        }
    }
    for change in verdict.changes {
        match &change {
            SetVerdict::Added { id, ranks } if ranks.contains(&me) => {
                sets.insert(*id, local_set(*id, ranks.clone().into()));
            }
            SetVerdict::Removed(id) => {
                sets.remove(id);
            }
            _ => {}
        }
        answers.push(Answer::Sets(change));
    }
    answers.extend(verdict.shutdown.map(Answer::ShutDown));
    Ok(())
}

/// A process set of a rank that executes nothing and need not know who shares its host.
fn local_set(id: ProcessSetId, members: Arc<[Rank]>) -> LocalSet {
    let hosts = None;
    LocalSet::new(id, Team { members, hosts })
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes.into()
}

fn garbled(error: hvd_wire::Error) -> Error {
    Error::Internal(format!("bad message: {error}"))
}

fn broken(Breach { rank, error }: &Breach) -> Error {
    Error::Internal(format!("rank {rank} {error}"))
}
