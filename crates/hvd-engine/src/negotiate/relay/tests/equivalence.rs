//! Random jobs, run once as a star and once as a tree with messages in random order: every rank
//! must get the same answers, and all ranks of a process set in the same order.
//!
//! A job is a list of phases; a rank waits for its answers between phases, so that what they are
//! does not depend on who is faster. Inside a phase everything is in flight at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::negotiate::coordinator::{CoordinatorOptions, JoinDivisor};
use crate::negotiate::hub::Hub;
use crate::negotiate::negotiating_rank::{NegotiatingRank, OutgoingMessage, RequestResult};
use crate::stall::StallOptions;

#[derive(Debug, Clone)]
enum Phase {
    /// Rounds of tensors in the set at an index (of those there are), in each rank's own order;
    /// `odd` makes some ranks ask for something else.
    Tensors {
        set: usize,
        odd: Vec<(u8, u8, u8)>,
    },
    /// Ranks ask for so many tensors each and join.
    Join {
        set: usize,
        counts: Vec<usize>,
    },
    /// A set of some ranks is added; `dissent` asks for something else.
    Add {
        members: Vec<bool>,
        dissent: bool,
    },
    Remove {
        set: usize,
    },
}

#[derive(Debug, Clone)]
struct Script {
    topology: Topology,
    fan_out: usize,
    phases: Vec<Phase>,
    leavers: Vec<bool>,
    seed: u64,
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const ROUNDS: usize = 3;

fn phase() -> impl Strategy<Value = Phase> {
    let odd = prop::collection::vec((0..6_u8, any::<u8>(), 0..3_u8), 0..6);
    prop_oneof![
        4 => (0..4_usize, odd).prop_map(|(set, odd)| Phase::Tensors { set, odd }),
        1 => (0..4_usize, prop::collection::vec(0..4_usize, 12))
            .prop_map(|(set, counts)| Phase::Join { set, counts }),
        2 => (prop::collection::vec(any::<bool>(), 12), prop::bool::weighted(0.2))
            .prop_map(|(members, dissent)| Phase::Add { members, dissent }),
        1 => (0..4_usize).prop_map(|set| Phase::Remove { set }),
    ]
}

prop_compose! {
    fn script()(
        hosts in prop::collection::vec(0..5_u8, 2..12), fan_out in 1..4_usize,
        phases in prop::collection::vec(phase(), 1..7),
        leavers in prop::collection::vec(any::<bool>(), 12), seed in any::<u64>(),
    ) -> Script {
        let topology = Topology::new(hosts.iter().map(|host| format!("h{host}")));
        Script { topology, fan_out, phases, leavers, seed }
    }
}

/// What a rank does next.
#[derive(Debug, Clone)]
enum Action {
    Ask(ProcessSetId, Request),
    Change(SetChange),
    Leave,
}

/// All ranks, what is on its way between them, and who is next.
struct World {
    nodes: Vec<NegotiatingRank>,
    actions: Vec<VecDeque<Action>>,
    pending: Vec<BTreeSet<(ProcessSetId, Arc<str>)>>,
    links: BTreeMap<(Rank, Rank), VecDeque<Arc<[u8]>>>,
    answers: Vec<Vec<RequestResult>>,
    now: Instant,
    random: u64,
    over: bool,
}

impl World {
    fn new(script: &Script, star: bool) -> Self {
        let size = script.topology.size();
        let members: Arc<[Rank]> = (0..size).map(Rank::from_index).collect();
        let node = |index| {
            let rank = Rank::from_index(index);
            let place = if star {
                TreePosition::in_star(rank, size)
            } else {
                ControlTree::new(&script.topology, script.fan_out).place(rank)
            };
            let options = CoordinatorOptions {
                topology: script.topology.clone(),
                fusion_threshold: 64,
                cache_capacity: 3,
                join_average: JoinDivisor::Contributors,
                stall: Some(StallOptions {
                    warning: HOUR,
                    shutdown: None,
                }),
                ..CoordinatorOptions::default()
            };
            let hub = (index == 0).then(|| Hub::new(options));
            NegotiatingRank::new(place, &members, hub, HOLD)
        };
        Self {
            nodes: (0..size).map(node).collect(),
            actions: vec![VecDeque::new(); size],
            pending: vec![BTreeSet::new(); size],
            links: BTreeMap::new(),
            answers: vec![Vec::new(); size],
            now: Instant::now(),
            random: script.seed | 1,
            over: false,
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap() % below.max(1)
    }

    /// Runs until nothing happens any more, in random order.
    fn run(&mut self) {
        let mut idle = 0;
        while idle < 3 {
            for _ in 0..20 * self.nodes.len() {
                match self.random(3) {
                    0 => self.act(),
                    1 => self.deliver(),
                    _ => self.turn(),
                }
            }
            let flying = self.links.values().any(|link| !link.is_empty());
            let waiting = self.actions.iter().any(|actions| !actions.is_empty());
            let held = self.nodes.iter().any(|node| node.due().is_some());
            idle = if flying || waiting || held {
                0
            } else {
                idle + 1
            };
            // What is held too long is passed up, also while ranks are still busy.
            self.now += HOLD / 2;
        }
    }

    /// A rank does what it can do: some of what comes next, at once.
    fn act(&mut self) {
        let rank = self.random(self.nodes.len());
        let most = 1 + self.random(4);
        let now = self.now;
        let mut asked: BTreeMap<ProcessSetId, Vec<Request>> = BTreeMap::new();
        for _ in 0..most {
            match self.actions[rank].front().cloned() {
                Some(Action::Ask(set, request)) => {
                    if !self.pending[rank].insert((set, Arc::clone(&request.name))) {
                        break;
                    }
                    asked.entry(set).or_default().push(request);
                }
                Some(Action::Change(change)) if asked.is_empty() => {
                    self.nodes[rank].request(vec![change], false, now).unwrap();
                }
                Some(Action::Leave) if asked.is_empty() => {
                    self.nodes[rank].request(Vec::new(), true, now).unwrap();
                }
                _ => break,
            }
            self.actions[rank].pop_front();
        }
        for (set, requests) in asked {
            self.nodes[rank].submit(set, requests, now).unwrap();
        }
        self.collect(rank);
    }

    fn deliver(&mut self) {
        let busy = self.links.iter().filter(|(_, link)| !link.is_empty());
        let busy: Vec<(Rank, Rank)> = busy.map(|(&link, _)| link).collect();
        if busy.is_empty() {
            return;
        }
        let link = busy[self.random(busy.len())];
        let (from, to) = link;
        if let Some(bytes) = self.links.get_mut(&link).and_then(VecDeque::pop_front) {
            self.nodes[to.index()]
                .receive(from, &bytes, self.now)
                .unwrap();
            self.collect(to.index());
        }
    }

    fn turn(&mut self) {
        let rank = self.random(self.nodes.len());
        // Once the end is agreed, rank 0 has nothing more to say.
        if rank == 0 && self.over {
            return;
        }
        self.nodes[rank].advance(self.now).unwrap();
        self.collect(rank);
    }

    fn collect(&mut self, rank: usize) {
        let from = Rank::from_index(rank);
        for OutgoingMessage { to, bytes } in self.nodes[rank].take_outgoing() {
            self.links.entry((from, to)).or_default().push_back(bytes);
        }
        for answer in self.nodes[rank].take_answers() {
            match &answer {
                RequestResult::Executed { set, name, .. }
                | RequestResult::Refused { set, name, .. } => {
                    self.pending[rank].remove(&(*set, Arc::clone(name)));
                }
                RequestResult::Joined(set, _) => {
                    self.pending[rank].remove(&(*set, JOIN_NAME.into()));
                }
                RequestResult::ShutDown(_) => self.over |= rank == 0,
                RequestResult::Sets(_) => {}
            }
            self.answers[rank].push(answer);
        }
    }
}

/// The process sets as the script goes on.
type Sets = BTreeMap<ProcessSetId, Vec<usize>>;

fn pick(sets: &Sets, index: usize) -> (ProcessSetId, Vec<usize>) {
    let (id, members) = sets.iter().nth(index % sets.len()).unwrap();
    (*id, members.clone())
}

fn tensor(rank: usize, round: usize, name: usize, odd: &[(u8, u8, u8)]) -> Request {
    let kinds = [OpKind::Allreduce, OpKind::Allgather, OpKind::Alltoall];
    let kind = kinds[name % 3];
    let ragged = kind != OpKind::Allreduce;
    // Ragged tensors differ between ranks, and for some ranks from round to round.
    let rows = if ragged {
        (rank % 3 + round * (rank % 2)) as u64
    } else {
        4
    };
    let mut request = request(NAMES[name], kind, rows);
    for &(odd_name, odd_rank, odd_round) in odd {
        let hit = usize::from(odd_name) == name && usize::from(odd_round) == round;
        if hit && usize::from(odd_rank) % 12 == rank {
            request.dtype = DType::Float64;
        }
    }
    if name == 5 {
        request.device = Device::Gpu(u16::try_from(rank % 4).unwrap());
    }
    request
}

impl World {
    /// Tells the ranks what to do in a phase.
    fn begin(&mut self, phase: &Phase, sets: &Sets) {
        match phase {
            Phase::Tensors { set, odd } => {
                let (id, members) = pick(sets, *set);
                for &rank in &members {
                    for round in 0..ROUNDS {
                        let mut names: Vec<usize> = (0..NAMES.len()).collect();
                        for last in (1..names.len()).rev() {
                            let other = self.random(last + 1);
                            names.swap(last, other);
                        }
                        let ask = |name| Action::Ask(id, tensor(rank, round, name, odd));
                        self.actions[rank].extend(names.into_iter().map(ask));
                    }
                }
            }
            Phase::Join { set, counts } => {
                let (id, members) = pick(sets, *set);
                for &rank in &members {
                    for name in ["j", "k", "l"].iter().take(counts[rank]) {
                        let request = request(name, OpKind::Allreduce, 4);
                        self.actions[rank].push_back(Action::Ask(id, request));
                    }
                    let join = request(JOIN_NAME, OpKind::Join, 0);
                    self.actions[rank].push_back(Action::Ask(id, join));
                }
            }
            Phase::Add { members, dissent } => {
                let size = self.nodes.len();
                let chosen = (0..size)
                    .filter(|&rank| members[rank])
                    .map(Rank::from_index);
                let mut chosen: Vec<Rank> = chosen.collect();
                for rank in 0..size {
                    if *dissent && rank == size - 1 {
                        chosen.reverse();
                        chosen.push(Rank::new(99));
                    }
                    let change = SetChange::Add(chosen.clone());
                    self.actions[rank].push_back(Action::Change(change));
                }
            }
            Phase::Remove { set } => {
                let (id, _) = pick(sets, *set);
                for actions in &mut self.actions {
                    actions.push_back(Action::Change(SetChange::Remove(id)));
                }
            }
        }
    }
}

/// What of an answer does not depend on the order of arrival.
fn essence(answer: &RequestResult) -> String {
    match answer {
        RequestResult::Refused { set, name, .. } => format!("refused {set} {name}"),
        RequestResult::Joined(set, _) => format!("joined {set}"),
        RequestResult::ShutDown(_) => "over".to_owned(),
        other => format!("{other:?}"),
    }
}

/// What all ranks of a set must be told alike.
fn told(answer: &RequestResult) -> (Option<ProcessSetId>, String) {
    match answer.clone() {
        RequestResult::Executed {
            set,
            name,
            divisor,
            first_dimensions,
            ..
        } => {
            let text = format!("{name} {divisor} {first_dimensions:?}");
            (Some(set), text)
        }
        RequestResult::Refused { set, name, reason } => (Some(set), format!("{name} {reason}")),
        RequestResult::Joined(set, last) => (Some(set), format!("joined {last}")),
        other => (None, format!("{other:?}")),
    }
}

/// Any two ranks get answers about the sets that both are in, and about all sets, in the same
/// order.
fn check_order(answers: &[Vec<RequestResult>], sets: &Sets) {
    let answered = |rank: usize, other: usize| -> Vec<(Option<ProcessSetId>, String)> {
        let shared = |id: &ProcessSetId| sets[id].contains(&other) && sets[id].contains(&rank);
        let told = answers[rank].iter().map(told);
        told.filter(|(set, _)| set.as_ref().is_none_or(shared))
            .collect()
    };
    for rank in 0..answers.len() {
        for other in 0..rank {
            assert_eq!(
                answered(rank, other),
                answered(other, rank),
                "ranks {rank}, {other}"
            );
        }
    }
}

/// What every rank was answered, phase by phase.
fn run(script: &Script, star: bool) -> Vec<Vec<Vec<String>>> {
    let mut world = World::new(script, star);
    let size = world.nodes.len();
    let mut sets: Sets = BTreeMap::from([(ProcessSetId::GLOBAL, (0..size).collect())]);
    let mut history = Vec::new();
    for phase in &script.phases {
        world.begin(phase, &sets);
        world.run();
        for pending in &world.pending {
            assert!(
                pending.is_empty(),
                "{phase:?}: without an answer: {pending:?}"
            );
        }
        let answers: Vec<Vec<RequestResult>> =
            world.answers.iter_mut().map(std::mem::take).collect();
        check_order(&answers, &sets);
        for answer in &answers[0] {
            match answer {
                RequestResult::Sets(SetChangeResult::Added { id, ranks }) => {
                    let members = ranks.iter().map(|rank| rank.index()).collect();
                    sets.insert(*id, members);
                }
                RequestResult::Sets(SetChangeResult::Removed(id)) => {
                    sets.remove(id);
                }
                _ => {}
            }
        }
        let sorted = |answers: &Vec<RequestResult>| {
            let mut all: Vec<String> = answers.iter().map(essence).collect();
            all.sort();
            all
        };
        history.push(answers.iter().map(sorted).collect());
    }
    for rank in (0..size).filter(|&rank| script.leavers[rank] || rank == size - 1) {
        world.actions[rank].push_back(Action::Leave);
    }
    world.run();
    let over = |answers: &Vec<RequestResult>| answers.iter().map(essence).collect::<Vec<_>>();
    let last: Vec<Vec<String>> = world.answers.iter().map(over).collect();
    assert!(
        last.iter()
            .all(|answers| answers.contains(&"over".to_owned()))
    );
    history
}

#[test]
fn rank_0_can_name_exactly_those_who_are_missing() {
    let script = Script {
        topology: Topology::new((0..12).map(|rank| format!("h{}", rank / 3))),
        fan_out: 1,
        phases: Vec::new(),
        leavers: Vec::new(),
        seed: 5,
    };
    let mut world = World::new(&script, false);
    for rank in (0..12).filter(|rank| ![4, 11].contains(rank)) {
        let ask = Action::Ask(ProcessSetId::GLOBAL, request("t", OpKind::Allreduce, 4));
        world.actions[rank].push_back(ask);
    }
    world.run();
    let reports = world.nodes[0].look_for_stalls(world.now + 2 * HOUR);
    let missing: Vec<u32> = reports[0].late[0]
        .missing
        .iter()
        .map(|place| place.rank.number())
        .collect();
    assert_eq!(missing, [4, 11]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_tree_answers_like_a_star(script in script()) {
        prop_assert_eq!(run(&script, true), run(&script, false));
    }
}
