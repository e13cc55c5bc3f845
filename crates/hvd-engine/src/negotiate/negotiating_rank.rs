//! One rank that negotiates and does nothing else: without a transport, a thread or tensors.
//! Messages are bytes, encoded and decoded as on a wire; the caller moves them, and gives the time.
//!
//! For simulations of many ranks in one process, and for tests that compare a star with a tree.
//! What decides is the code that runs in a job; a response list counts as carried out when it
//! arrives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::{OpKind, ProcessSetId, Rank, Topology};
#[cfg(test)]
use hvd_wire::SetChange;
use hvd_wire::{Request, RequestList, Response, ResponseList, SetChangeResult};

use super::coordinator::Breach;
use super::hub::Hub;
use super::relay::{HOLD, ResponseRoute};
use super::role::{ControlRole, Upward};
use super::tree::{ControlTree, FAN_OUT, TreePosition};
use crate::EngineOptions;
use crate::engine::start;
use crate::execute::team::Team;
use crate::handle::{Completer, Completion};
use crate::local_set::LocalSet;
use crate::queue::QueueEntry;
use crate::submit::Submission;
use crate::tensor::TensorSource;
use crate::timeline::Timeline;
use crate::{Error, Result};

/// A message to a neighbour.
#[derive(Debug, Clone)]
pub struct OutgoingMessage {
    /// The neighbour.
    pub to: Rank,
    /// One encoded message.
    pub bytes: Arc<[u8]>,
}

/// The answer to something that a rank asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RequestResult {
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
    Sets(SetChangeResult),
    ShutDown(Rank),
}

/// One rank of a job, without an engine.
#[derive(Debug)]
pub struct NegotiatingRank {
    role: ControlRole,
    sets: BTreeMap<ProcessSetId, LocalSet>,
    outgoing: Vec<OutgoingMessage>,
    answers: Vec<RequestResult>,
}

impl NegotiatingRank {
    /// All ranks of a job in which each one sends its requests to rank 0.
    pub fn star(topology: &Topology, options: &EngineOptions) -> Vec<Self> {
        let size = topology.size();
        let position = |rank| TreePosition::in_star(rank, size);
        Self::all(topology, options, position)
    }

    /// All ranks of a job that negotiates through a tree of relays.
    pub fn tree(topology: &Topology, options: &EngineOptions) -> Vec<Self> {
        let tree = ControlTree::new(topology, FAN_OUT);
        Self::all(topology, options, |rank| tree.place(rank))
    }

    fn all(
        topology: &Topology,
        options: &EngineOptions,
        position: impl Fn(Rank) -> TreePosition,
    ) -> Vec<Self> {
        let members: Arc<[Rank]> = topology.members().into();
        let rank = |&rank: &Rank| {
            let is_root = rank == Rank::COORDINATOR;
            let hub = is_root.then(|| start::hub(topology, options, &Timeline::new()));
            Self::new(position(rank), &members, hub, HOLD)
        };
        members.iter().map(rank).collect()
    }

    /// A rank at its position in the tree; `members` are all ranks, rank 0 has the hub.
    pub(crate) fn new(
        position: TreePosition,
        members: &Arc<[Rank]>,
        hub: Option<Hub>,
        hold: Duration,
    ) -> Self {
        let id = ProcessSetId::GLOBAL;
        Self {
            role: ControlRole::new(position, hub, hold),
            sets: BTreeMap::from([(id, local_set(id, Arc::clone(members)))]),
            outgoing: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Its number.
    pub fn rank(&self) -> Rank {
        self.role.place().rank
    }

    /// How many ranks it exchanges messages with.
    pub fn connections(&self) -> usize {
        self.role.place().neighbours().count()
    }

    /// Submits operations on a process set.
    pub fn submit(&mut self, id: ProcessSetId, requests: Vec<Request>, now: Instant) -> Result<()> {
        let unknown = || Error::Internal(format!("not in process set {id}"));
        let set = self.sets.get_mut(&id).ok_or_else(unknown)?;
        let mut message = set.announcement();
        for request in requests {
            let Request {
                kind, dtype, shape, ..
            } = &request;
            let nothing = TensorSource::owned(Vec::new());
            let submission = Submission {
                process_set: id,
                ..Submission::new(*kind, *dtype, shape.clone(), nothing)
            };
            let completer = Completer::new(&Arc::new(Completion::default()));
            set.announce(
                QueueEntry::new(request, submission, completer),
                &mut message,
            );
        }
        self.announce(message, now)
    }

    /// Asks for changes of the process sets, or for the end.
    #[cfg(test)]
    pub(crate) fn request(
        &mut self,
        changes: Vec<SetChange>,
        shutdown: bool,
        now: Instant,
    ) -> Result<()> {
        let global = self.sets.get(&ProcessSetId::GLOBAL);
        let message = RequestList {
            changes,
            shutdown,
            ..global.map(LocalSet::announcement).unwrap_or_default()
        };
        self.announce(message, now)
    }

    /// Takes in a message.
    pub fn receive(&mut self, from: Rank, bytes: &Arc<[u8]>, now: Instant) -> Result<()> {
        if self.role.place().parent == Some(from) {
            return self.receive_response_list(bytes);
        }
        let result = self.role.receive(from, bytes, now);
        result.map_err(|breach| broken(&breach))
    }

    /// Decides or passes on what can be decided or passed on now.
    pub fn advance(&mut self, now: Instant) -> Result<()> {
        for (response_list, route) in self.role.decide(now) {
            let bytes = encoded(|out| response_list.encode(out));
            self.follow(response_list, &bytes, route)?;
        }
        let message = self.role.gathered(now);
        self.pass_up(message);
        Ok(())
    }

    /// When to [`advance`](Self::advance) even if nothing happens.
    pub fn due(&self) -> Option<Instant> {
        self.role.due()
    }

    /// On rank 0: reports about stalled tensors.
    #[cfg(test)]
    pub(crate) fn look_for_stalls(&mut self, now: Instant) -> Vec<crate::stall::StallReport> {
        self.role.look_for_stalls(now)
    }

    /// The messages to be delivered, in order.
    pub fn take_outgoing(&mut self) -> Vec<OutgoingMessage> {
        std::mem::take(&mut self.outgoing)
    }

    /// How many requests were answered here since the last look.
    pub fn take_answer_count(&mut self) -> usize {
        self.take_answers().len()
    }

    pub(crate) fn take_answers(&mut self) -> Vec<RequestResult> {
        std::mem::take(&mut self.answers)
    }

    fn announce(&mut self, message: RequestList, now: Instant) -> Result<()> {
        let result = self.role.send(message, now);
        let message = result.map_err(|breach| broken(&breach))?;
        self.pass_up(message);
        Ok(())
    }

    fn pass_up(&mut self, message: Option<Upward>) {
        if let (Some(message), Some(to)) = (message, self.role.place().parent) {
            let bytes = encoded(|out| message.encode(out));
            self.outgoing.push(OutgoingMessage { to, bytes });
        }
    }

    fn receive_response_list(&mut self, bytes: &Arc<[u8]>) -> Result<()> {
        let garbled = |error| Error::Internal(format!("bad message: {error}"));
        let response_list = ResponseList::decode(bytes).map_err(garbled)?;
        let route = self.role.route(&response_list);
        self.follow(response_list, bytes, route)
    }

    fn follow(
        &mut self,
        response_list: ResponseList,
        bytes: &Arc<[u8]>,
        route: ResponseRoute,
    ) -> Result<()> {
        self.outgoing
            .extend(route.children.into_iter().map(|to| OutgoingMessage {
                to,
                bytes: Arc::clone(bytes),
            }));
        if !route.mine {
            return Ok(());
        }
        let me = self.rank();
        carry_out(response_list, me, &mut self.sets, &mut self.answers)
    }
}

/// What the cycle does with a response list, without executing anything.
fn carry_out(
    response_list: ResponseList,
    me: Rank,
    sets: &mut BTreeMap<ProcessSetId, LocalSet>,
    answers: &mut Vec<RequestResult>,
) -> Result<()> {
    let id = response_list.process_set;
    let stranger = || {
        Error::Internal(format!(
            "got a response list for process set {id}, of which this rank is no member"
        ))
    };
    let set = sets.get_mut(&id).ok_or_else(stranger)?;
    set.begin(response_list.sequence, &response_list.evicted);
    for response in response_list.responses {
        match response {
            Response::Execute(operation) => {
                let executed = |task: crate::execute::Task| RequestResult::Executed {
                    set: id,
                    name: Arc::clone(&task.spec.name),
                    kind: operation.kind,
                    divisor: operation.divisor,
                    first_dimensions: task.spec.first_dimensions.clone(),
                    asked: task.entry.is_some(),
                };
                answers.extend(set.tasks(&operation)?.into_iter().map(executed));
            }
            Response::Refuse { name, reason } => {
                set.refused(&name)?;
                answers.push(RequestResult::Refused {
                    set: id,
                    name,
                    reason,
                });
            }
            Response::Joined { last } => {
                set.joined()?;
                answers.push(RequestResult::Joined(id, last));
            }
        }
    }
    for change in response_list.changes {
        match &change {
            SetChangeResult::Added { id, ranks } if ranks.contains(&me) => {
                sets.insert(*id, local_set(*id, ranks.clone().into()));
            }
            SetChangeResult::Removed(id) => {
                sets.remove(id);
            }
            _ => {}
        }
        answers.push(RequestResult::Sets(change));
    }
    answers.extend(response_list.shutdown.map(RequestResult::ShutDown));
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

fn broken(Breach { rank, error }: &Breach) -> Error {
    Error::Internal(format!("rank {rank} {error}"))
}
