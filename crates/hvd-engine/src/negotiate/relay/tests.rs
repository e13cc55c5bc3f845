//! Single rules by hand, and whole jobs in which a tree must give the answers of a star.

mod equivalence;

use hvd_types::{DType, Device, ReduceOp, Shape, Topology};
use hvd_wire::{
    CacheId, Operation, Request, Schedule, ScheduleHalt, SetChange, TensorRef, TensorSpec,
};

use super::*;
use crate::negotiate::tree::ControlTree;
use crate::submit::JOIN_NAME;

const HOUR: Duration = Duration::from_secs(3600);

fn request(name: &str, kind: OpKind, rows: u64) -> Request {
    Request {
        name: name.into(),
        kind,
        dtype: DType::Float32,
        shape: Shape::new([rows, 2]),
        root: Rank::new(0),
        device: Device::Cpu,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 1.0,
        group: None,
    }
}

fn ranks(numbers: impl IntoIterator<Item = u32>) -> Ranks {
    numbers.into_iter().map(Rank::new).collect()
}

/// Host `b` of ranks 2, 3 and 4, of which rank 2 is the leader.
fn relay(hold: Duration) -> Relay {
    let topology = Topology::new(["a", "a", "b", "b", "b"]);
    Relay::new(ControlTree::new(&topology, 8).place(Rank::new(2)), hold)
}

fn asks(relay: &mut Relay, rank: u32, requests: Vec<Request>, now: Instant) {
    let message = RequestList {
        requests,
        ..RequestList::default()
    };
    relay.receive(Rank::new(rank), message, now).unwrap();
}

fn allreduce(name: &str) -> Vec<Request> {
    vec![request(name, OpKind::Allreduce, 4)]
}

/// Who is said to ask for what.
fn said(message: &MergedRequestLists) -> Vec<(Ranks, Vec<&str>)> {
    message
        .lists
        .iter()
        .map(|list| {
            let requests = list.requests.iter();
            let names = requests.map(|shared| &*shared.request.name).collect();
            (list.ranks.clone(), names)
        })
        .collect()
}

#[test]
fn relay_1_what_all_ask_for_is_said_once() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    for rank in [3, 2] {
        asks(&mut relay, rank, allreduce("t"), now);
        assert_eq!(relay.take_upward(now), None);
    }
    asks(&mut relay, 4, allreduce("t"), now);
    let message = relay.take_upward(now).unwrap();
    assert_eq!(said(&message), [(ranks(2..5), vec!["t"])]);
    assert_eq!(relay.take_upward(now), None);
    assert_eq!(relay.due(), None);
}

#[test]
fn relay_1_a_mismatch_is_passed_up_with_both_sides() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    asks(&mut relay, 2, allreduce("t"), now);
    asks(&mut relay, 3, vec![request("t", OpKind::Allreduce, 5)], now);
    asks(&mut relay, 4, allreduce("t"), now);
    let message = relay.take_upward(now).unwrap();
    assert_eq!(
        said(&message),
        [(ranks([2, 4]), vec!["t"]), (ranks([3]), vec!["t"])]
    );
}

#[test]
fn relay_2_what_is_incomplete_for_too_long_is_passed_up_and_the_rest_at_once() {
    let (mut relay, start) = (relay(HOLD), Instant::now());
    asks(&mut relay, 3, allreduce("t"), start);
    assert_eq!(relay.due(), Some(start + HOLD));
    assert_eq!(relay.take_upward(start + HOLD / 2), None);
    let message = relay.take_upward(start + HOLD).unwrap();
    assert_eq!(said(&message), [(ranks([3]), vec!["t"])]);
    assert_eq!(relay.due(), None);
    for rank in [2, 4] {
        asks(&mut relay, rank, allreduce("t"), start + HOUR);
        let message = relay.take_upward(start + HOUR).unwrap();
        assert_eq!(said(&message), [(ranks([rank]), vec!["t"])]);
    }
    asks(&mut relay, 3, allreduce("t"), start + HOUR);
    assert_eq!(relay.take_upward(start + HOUR), None, "the next time");
}

#[test]
fn relay_3_a_join_comes_after_what_the_same_rank_asked_for() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    asks(&mut relay, 3, allreduce("t"), now);
    asks(&mut relay, 4, allreduce("u"), now);
    asks(
        &mut relay,
        3,
        vec![request(JOIN_NAME, OpKind::Join, 0)],
        now,
    );
    let message = relay.take_upward(now).unwrap();
    assert_eq!(
        said(&message),
        [(ranks([3]), vec!["t"]), (ranks([3]), vec![JOIN_NAME])]
    );
    asks(&mut relay, 2, allreduce("u"), now);
    let message = relay.take_upward(now).unwrap();
    let others = ranks([2, 4]);
    assert_eq!(
        said(&message),
        [(others, vec!["u"])],
        "rank 3 is not waited for"
    );
}

#[test]
fn relay_3_the_same_wish_of_several_ranks_is_said_together() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    asks(&mut relay, 4, allreduce("t"), now);
    for rank in 2..5 {
        let message = RequestList {
            changes: vec![SetChange::Add(vec![Rank::new(1)])],
            ..RequestList::default()
        };
        relay.receive(Rank::new(rank), message, now).unwrap();
    }
    let message = relay.take_upward(now).unwrap();
    let who: Vec<Ranks> = message
        .lists
        .iter()
        .map(|list| list.ranks.clone())
        .collect();
    assert_eq!(who, [ranks([2, 3]), ranks([4]), ranks([4])]);
    assert_eq!(
        message.lists[1].requests.len(),
        1,
        "what rank 4 asked for before"
    );
    assert_eq!(message.lists[2].changes.len(), 1);
}

fn response_list(sequence: u64, name: &str, id: u64) -> ResponseList {
    let spec = TensorSpec {
        name: name.into(),
        cache: Some(CacheId(id)),
        shape: Shape::new([4, 2]),
        first_dimensions: Vec::new(),
    };
    let operation = Operation {
        kind: OpKind::Allreduce,
        dtype: DType::Float32,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 1.0,
        root: Rank::new(0),
        divisor: 5,
        tensors: vec![TensorRef::New(spec)],
    };
    ResponseList {
        sequence,
        responses: vec![Response::Execute(operation)],
        ..ResponseList::default()
    }
}

fn names(relay: &mut Relay, rank: u32, id: u64, seen: u64, now: Instant) {
    let message = RequestList {
        seen,
        cached: vec![CacheId(id)],
        ..RequestList::default()
    };
    relay.receive(Rank::new(rank), message, now).unwrap();
}

#[test]
fn relay_4_a_response_list_is_not_read_while_older_words_are_held() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    relay.route(&response_list(1, "t", 1));
    relay.route(&response_list(2, "u", 2));
    names(&mut relay, 3, 1, 1, now);
    for rank in 2..5 {
        names(&mut relay, rank, 2, 2, now);
    }
    let message = relay.take_upward(now).unwrap();
    assert_eq!(message.lists[0].cached, [CacheId(2)]);
    assert_eq!(
        message.seen,
        [],
        "number 1 was sent by one that had not read response list 1"
    );
    for rank in [2, 4] {
        names(&mut relay, rank, 1, 2, now);
    }
    let message = relay.take_upward(now).unwrap();
    assert_eq!(message.lists[0].cached, [CacheId(1)]);
    assert_eq!(message.seen, [(ProcessSetId::GLOBAL, 2)]);
}

#[test]
fn a_number_and_a_description_of_the_same_tensor_complete_it() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    relay.route(&response_list(1, "t", 1));
    names(&mut relay, 2, 1, 1, now);
    names(&mut relay, 3, 1, 1, now);
    asks(&mut relay, 4, vec![request("t", OpKind::Allreduce, 9)], now);
    let message = relay.take_upward(now).unwrap();
    assert_eq!(message.lists.len(), 2);
    assert_eq!(message.lists[0].ranks, ranks([2, 3]));
}

#[test]
fn an_unknown_number_is_passed_up_at_once() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    names(&mut relay, 3, 7, 0, now);
    let message = relay.take_upward(now).unwrap();
    assert_eq!(message.lists[0].cached, [CacheId(7)]);
    assert_eq!(message.lists[0].ranks, ranks([3]));
}

#[test]
fn response_lists_go_where_members_are() {
    let mut relay = relay(HOUR);
    let id = ProcessSetId::new(1);
    let added = ResponseList {
        changes: vec![SetChangeResult::Added {
            id,
            ranks: [1, 4].map(Rank::new).to_vec(),
        }],
        ..ResponseList::default()
    };
    let to_all = ResponseRoute {
        children: [3, 4].map(Rank::new).to_vec(),
        mine: true,
    };
    assert_eq!(relay.route(&added), to_all);
    let about_it = ResponseList {
        process_set: id,
        ..ResponseList::default()
    };
    let one = ResponseRoute {
        children: vec![Rank::new(4)],
        mine: false,
    };
    assert_eq!(relay.route(&about_it), one);
    let removed = ResponseList {
        changes: vec![SetChangeResult::Removed(id)],
        ..ResponseList::default()
    };
    assert_eq!(relay.route(&removed), to_all);
    let now = Instant::now();
    let late = RequestList {
        process_set: id,
        requests: allreduce("late"),
        ..RequestList::default()
    };
    relay.receive(Rank::new(4), late, now).unwrap();
    let message = relay.take_upward(now).unwrap();
    assert_eq!(said(&message), [(ranks([4]), vec!["late"])]);
}

fn schedule_command(sequence: u64, schedule: ScheduleCommand) -> ResponseList {
    ResponseList {
        sequence,
        schedule: Some(schedule),
        ..ResponseList::default()
    }
}

fn begin(number: u64) -> ScheduleCommand {
    ScheduleCommand::Begin(Schedule {
        number,
        operations: Vec::new(),
    })
}

#[test]
fn relay_5_what_was_asked_before_a_schedule_is_forgotten() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    asks(&mut relay, 3, allreduce("held"), now);
    asks(
        &mut relay,
        2,
        vec![request(JOIN_NAME, OpKind::Join, 0)],
        now,
    );
    relay.route(&schedule_command(7, begin(1)));
    assert_eq!(relay.take_upward(now), None, "not even the join");
    asks(&mut relay, 4, allreduce("on its way"), now);
    assert_eq!((relay.take_upward(now), relay.due()), (None, None));
    relay.route(&schedule_command(
        8,
        ScheduleCommand::End { number: 1, next: 0 },
    ));
    for rank in [2, 3, 4] {
        let again = RequestList {
            requests: allreduce("held"),
            seen: 8,
            ..RequestList::default()
        };
        relay.receive(Rank::new(rank), again, now).unwrap();
    }
    let message = relay.take_upward(now).unwrap();
    assert_eq!(said(&message), [(ranks(2..5), vec!["held"])]);
    assert_eq!(message.routed, 8);
}

#[test]
fn relay_5_changes_and_the_end_are_not_forgotten() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    let leaving = RequestList {
        requests: allreduce("t"),
        shutdown: true,
        ..RequestList::default()
    };
    relay.receive(Rank::new(3), leaving, now).unwrap();
    relay.route(&schedule_command(7, begin(1)));
    let message = relay.take_upward(now).unwrap();
    assert_eq!(said(&message), [(ranks([3]), vec![])]);
    assert!(message.lists[0].shutdown);
}

#[test]
fn relay_5_the_first_halt_is_passed_up_at_once_and_the_others_together() {
    let (mut relay, now) = (relay(HOUR), Instant::now());
    relay.route(&schedule_command(7, begin(1)));
    let mut halt = |rank, next| {
        let halted = Some(ScheduleHalt { schedule: 1, next });
        let message = RequestList {
            seen: 7,
            halted,
            ..RequestList::default()
        };
        relay.receive(Rank::new(rank), message, now).unwrap();
        let lists = relay.take_upward(now).map(|message| message.lists);
        let list = |list: &SharedRequestList| (list.ranks.clone(), list.halted.unwrap().next);
        lists.iter().flatten().map(list).collect::<Vec<_>>()
    };
    assert_eq!(halt(3, 5), [(ranks([3]), 5)]);
    assert_eq!(halt(2, 4), []);
    assert_eq!(halt(4, 6), [(ranks([2, 4]), 4)], "as far as all have come");
}

#[test]
fn a_child_speaks_only_for_those_below_it() {
    let mut relay = relay(HOUR);
    let list = SharedRequestList {
        ranks: ranks([4]),
        ..SharedRequestList::default()
    };
    let message = MergedRequestLists {
        lists: vec![list],
        ..MergedRequestLists::default()
    };
    let breach = relay.receive_merged(Rank::new(3), message, Instant::now());
    let error = ProtocolError::NotBelow;
    let rank = Rank::new(3);
    assert_eq!(breach, Err(Breach { rank, error }));
}
