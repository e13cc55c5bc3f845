//! Whole negotiations with a clock made by hand.

use hvd_types::{DType, Device, ReduceOp, Shape, Topology};
use hvd_wire::Request;

use super::*;
use crate::autotune::{AutotuneOptions, Choice};

fn options(size: usize) -> CoordinatorOptions {
    CoordinatorOptions {
        topology: Topology::new((0..size).map(|rank| format!("h{rank}"))),
        fusion_threshold: 1 << 20,
        cache_capacity: 16,
        cycle_time: Duration::ZERO,
        ..CoordinatorOptions::default()
    }
}

/// The coordinator of the global process set.
fn coordinator(options: CoordinatorOptions) -> Coordinator {
    let members = (0..options.topology.size()).map(Rank::from_index).collect();
    Coordinator::new(ProcessSetId::GLOBAL, members, Arc::new(options))
}

fn request(name: &str, elements: u64) -> Request {
    Request {
        name: name.into(),
        kind: OpKind::Allreduce,
        dtype: DType::Float32,
        shape: Shape::new([elements]),
        root: Rank::new(0),
        device: Device::Cpu,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 1.0,
        group: None,
    }
}

fn asks(requests: Vec<Request>) -> RequestList {
    RequestList {
        requests,
        ..RequestList::default()
    }
}

fn names(id: u64, seen: u64) -> RequestList {
    RequestList {
        seen,
        cached: vec![CacheId(id)],
        ..RequestList::default()
    }
}

fn operations(response_list: &ResponseList) -> Vec<&[TensorRef]> {
    response_list
        .responses
        .iter()
        .filter_map(|response| match response {
            Response::Execute(operation) => Some(operation.tensors.as_slice()),
            _ => None,
        })
        .collect()
}

fn told(reference: &TensorRef) -> (&str, Option<u64>) {
    match reference {
        TensorRef::New(spec) => (&spec.name, spec.cache.map(|id| id.0)),
        TensorRef::Cached(id) => ("", Some(id.0)),
    }
}

/// All ranks ask for the same tensors; returns the response list.
fn round(
    coordinator: &mut Coordinator,
    size: usize,
    message: &RequestList,
) -> Option<ResponseList> {
    for rank in 0..size {
        coordinator
            .receive(Rank::from_index(rank), message.clone(), Instant::now())
            .unwrap();
    }
    coordinator.decide(Instant::now(), false)
}

#[test]
fn ready_1_nothing_is_said_until_every_rank_has_asked() {
    let mut coordinator = coordinator(options(3));
    let now = Instant::now();
    for rank in 0..2 {
        coordinator
            .receive(Rank::new(rank), asks(vec![request("a", 1)]), Instant::now())
            .unwrap();
        assert_eq!(coordinator.decide(now, false), None);
    }
    coordinator
        .receive(Rank::new(2), asks(vec![request("a", 1)]), Instant::now())
        .unwrap();
    let response_list = coordinator.decide(now, false).unwrap();
    assert_eq!(response_list.sequence, 1);
    assert_eq!(told(&operations(&response_list)[0][0]), ("a", Some(1)));
    assert_eq!(coordinator.decide(now, false), None, "it is said once");
}

#[test]
fn ready_2_tensors_are_answered_in_the_order_they_became_ready() {
    let mut coordinator = coordinator(CoordinatorOptions {
        fusion_threshold: 0,
        ..options(2)
    });
    let [a, b, c] = ["a", "b", "c"].map(|name| request(name, 1));
    coordinator
        .receive(
            Rank::new(0),
            asks(vec![a.clone(), b.clone(), c.clone()]),
            Instant::now(),
        )
        .unwrap();
    coordinator
        .receive(Rank::new(1), asks(vec![c, a, b]), Instant::now())
        .unwrap();
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    let order: Vec<&str> = operations(&response_list)
        .iter()
        .map(|members| told(&members[0]).0)
        .collect();
    assert_eq!(order, ["c", "a", "b"]);
}

#[test]
fn tensors_that_are_ready_together_are_fused() {
    let mut coordinator = coordinator(options(2));
    let both = asks(vec![request("a", 1), request("b", 2)]);
    let response_list = round(&mut coordinator, 2, &both).unwrap();
    assert_eq!(operations(&response_list).len(), 1);
    assert_eq!(operations(&response_list)[0].len(), 2);
}

#[test]
fn the_second_time_a_number_stands_for_the_tensor() {
    let mut coordinator = coordinator(options(2));
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    let response_list = round(&mut coordinator, 2, &names(1, 1)).unwrap();
    assert_eq!(
        operations(&response_list),
        [[TensorRef::Cached(CacheId(1))]]
    );
    assert_eq!(response_list.evicted, []);
}

#[test]
fn a_changed_tensor_gets_a_new_number_and_the_old_one_is_forgotten() {
    let mut coordinator = coordinator(options(2));
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    let response_list = round(&mut coordinator, 2, &asks(vec![request("a", 5)])).unwrap();
    assert_eq!(response_list.evicted, [CacheId(1)]);
    assert_eq!(told(&operations(&response_list)[0][0]), ("a", Some(2)));
}

#[test]
fn one_rank_with_a_changed_tensor_is_an_error_for_all_and_the_next_one_works() {
    let mut coordinator = coordinator(options(2));
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    coordinator
        .receive(Rank::new(0), names(1, 1), Instant::now())
        .unwrap();
    coordinator
        .receive(Rank::new(1), asks(vec![request("a", 7)]), Instant::now())
        .unwrap();
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    let [Response::Refuse { name, reason }] = response_list.responses.as_slice() else {
        panic!("{response_list:?}");
    };
    assert_eq!(&**name, "a");
    assert_eq!(
        reason,
        "allreduce of tensor `a`: ranks do not agree on the shape: rank 0 on host `h0` has [1], \
         rank 1 on host `h1` has [7]"
    );
    let response_list = round(&mut coordinator, 2, &names(1, 2)).unwrap();
    assert_eq!(
        operations(&response_list),
        [[TensorRef::Cached(CacheId(1))]]
    );
}

#[test]
fn a_number_that_crosses_its_eviction_still_means_the_same_tensor() {
    let mut coordinator = coordinator(CoordinatorOptions {
        cache_capacity: 1,
        ..options(2)
    });
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    coordinator
        .receive(Rank::new(0), names(1, 1), Instant::now())
        .unwrap();
    let response_list = round(&mut coordinator, 2, &asks(vec![request("b", 1)])).unwrap();
    assert_eq!(response_list.evicted, [CacheId(1)]);
    coordinator
        .receive(Rank::new(1), names(1, 1), Instant::now())
        .unwrap();
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    assert_eq!(told(&operations(&response_list)[0][0]).0, "a");
}

#[test]
fn a_tensor_evicted_by_a_later_one_of_the_same_response_list_is_told_in_full() {
    let mut coordinator = coordinator(CoordinatorOptions {
        cache_capacity: 1,
        ..options(2)
    });
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    let message = RequestList {
        requests: vec![request("b", 1)],
        ..names(1, 1)
    };
    let response_list = round(&mut coordinator, 2, &message).unwrap();
    assert_eq!(response_list.evicted, [CacheId(1)]);
    let members: Vec<_> = operations(&response_list).concat();
    assert_eq!(
        members.iter().map(told).collect::<Vec<_>>(),
        [("a", None), ("b", Some(2))]
    );
}

#[test]
fn a_new_tensor_evicted_by_a_later_one_of_the_same_response_list_gets_no_number() {
    let mut coordinator = coordinator(CoordinatorOptions {
        cache_capacity: 1,
        ..options(2)
    });
    let both = asks(vec![request("a", 1), request("b", 1)]);
    let response_list = round(&mut coordinator, 2, &both).unwrap();
    let members: Vec<_> = operations(&response_list).concat();
    assert_eq!(
        members.iter().map(told).collect::<Vec<_>>(),
        [("a", None), ("b", Some(2))]
    );
}

#[test]
fn ragged_gathers_remember_each_ranks_rows() {
    let mut coordinator = coordinator(options(3));
    for rank in [2, 0, 1] {
        let gather = Request {
            kind: OpKind::Allgather,
            ..request("g", u64::from(rank) + 5)
        };
        coordinator
            .receive(Rank::new(rank), asks(vec![gather]), Instant::now())
            .unwrap();
    }
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    let TensorRef::New(spec) = &operations(&response_list)[0][0] else {
        panic!("{response_list:?}")
    };
    assert_eq!(spec.first_dimensions, [5, 6, 7]);
    let response_list = round(&mut coordinator, 3, &names(1, 1)).unwrap();
    assert_eq!(
        operations(&response_list),
        [[TensorRef::Cached(CacheId(1))]]
    );
}

#[test]
fn a_least_time_between_response_lists_is_kept_by_the_given_clock() {
    let cycle_time = Duration::from_millis(5);
    let mut coordinator = coordinator(CoordinatorOptions {
        cycle_time,
        ..options(1)
    });
    let start = Instant::now();
    let me = Rank::new(0);
    coordinator
        .receive(me, asks(vec![request("a", 1)]), Instant::now())
        .unwrap();
    assert!(
        coordinator.decide(start, false).is_some(),
        "the first one need not wait"
    );
    coordinator
        .receive(me, asks(vec![request("b", 1)]), Instant::now())
        .unwrap();
    assert_eq!(coordinator.due(), Some(start + cycle_time));
    assert_eq!(
        coordinator.decide(start + Duration::from_millis(4), false),
        None
    );
    coordinator
        .receive(me, asks(vec![request("c", 1)]), Instant::now())
        .unwrap();
    let response_list = coordinator.decide(start + cycle_time, false).unwrap();
    assert_eq!(
        operations(&response_list)[0].len(),
        2,
        "what came meanwhile goes along"
    );
    assert_eq!(coordinator.due(), None);
}

fn joins() -> RequestList {
    let request = Request {
        kind: OpKind::Join,
        ..request("join.noname", 0)
    };
    asks(vec![request])
}

fn executed(response_list: &ResponseList) -> Vec<(Vec<&str>, u32)> {
    response_list
        .responses
        .iter()
        .filter_map(|response| match response {
            Response::Execute(operation) => {
                let names = operation
                    .tensors
                    .iter()
                    .map(|reference| told(reference).0)
                    .collect();
                Some((names, operation.divisor))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn a_join_makes_ready_what_only_waited_for_that_rank() {
    let mut coordinator = coordinator(CoordinatorOptions {
        fusion_threshold: 0,
        ..options(3)
    });
    for rank in [1, 2] {
        let both = asks(vec![request("b", 1), request("a", 1)]);
        coordinator
            .receive(Rank::new(rank), both, Instant::now())
            .unwrap();
    }
    assert_eq!(coordinator.decide(Instant::now(), false), None);
    coordinator
        .receive(Rank::new(0), joins(), Instant::now())
        .unwrap();
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    assert_eq!(
        executed(&response_list),
        [(vec!["b"], 3), (vec!["a"], 3)],
        "in the order of arrival"
    );
    assert!(
        response_list.responses.len() == 2,
        "the join itself is not over"
    );
    assert_eq!(
        told(&operations(&response_list)[0][0]).1,
        None,
        "not remembered"
    );
}

#[test]
fn an_average_may_be_over_the_ranks_that_contributed() {
    let options = CoordinatorOptions {
        join_average: JoinDivisor::Contributors,
        ..options(3)
    };
    let mut coordinator = coordinator(options);
    coordinator
        .receive(Rank::new(0), joins(), Instant::now())
        .unwrap();
    for rank in [1, 2] {
        coordinator
            .receive(Rank::new(rank), asks(vec![request("a", 1)]), Instant::now())
            .unwrap();
    }
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    assert_eq!(executed(&response_list), [(vec!["a"], 2)]);
}

#[test]
fn join_1_when_all_have_joined_the_last_one_is_named_and_everything_is_answered() {
    let mut coordinator = coordinator(options(3));
    coordinator
        .receive(
            Rank::new(2),
            asks(vec![request("left over", 1)]),
            Instant::now(),
        )
        .unwrap();
    for rank in [2, 0, 1] {
        assert_eq!(coordinator.decide(Instant::now(), false), None);
        coordinator
            .receive(Rank::new(rank), joins(), Instant::now())
            .unwrap();
    }
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    assert_eq!(executed(&response_list).len(), 1);
    assert_eq!(
        response_list.responses.last(),
        Some(&Response::Joined { last: Rank::new(1) })
    );
    round(&mut coordinator, 3, &asks(vec![request("after", 1)])).unwrap();
}

#[test]
fn a_joined_rank_makes_remembered_gathers_an_error_but_not_reductions() {
    let mut coordinator = coordinator(options(2));
    let gather = Request {
        kind: OpKind::Allgather,
        ..request("g", 2)
    };
    round(&mut coordinator, 2, &asks(vec![request("a", 1), gather])).unwrap();
    coordinator
        .receive(Rank::new(0), joins(), Instant::now())
        .unwrap();
    let message = RequestList {
        seen: 1,
        cached: vec![CacheId(1), CacheId(2)],
        ..RequestList::default()
    };
    coordinator
        .receive(Rank::new(1), message, Instant::now())
        .unwrap();
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    let refused =
        matches!(&response_list.responses[0], Response::Refuse { name, .. } if &**name == "g");
    assert!(refused, "{response_list:?}");
    assert_eq!(
        operations(&response_list),
        [[TensorRef::Cached(CacheId(1))]]
    );
}

#[test]
fn only_members_are_waited_for_and_heard() {
    let members = vec![Rank::new(1), Rank::new(3)];
    let id = ProcessSetId::new(4);
    let mut coordinator = Coordinator::new(id, members, Arc::new(options(4)));
    for rank in [3, 1] {
        let gather = Request {
            kind: OpKind::Allgather,
            ..request("g", u64::from(rank))
        };
        coordinator
            .receive(Rank::new(rank), asks(vec![gather]), Instant::now())
            .unwrap();
    }
    let response_list = coordinator.decide(Instant::now(), false).unwrap();
    assert_eq!(response_list.process_set, id);
    let TensorRef::New(spec) = &operations(&response_list)[0][0] else {
        panic!("{response_list:?}")
    };
    assert_eq!(spec.first_dimensions, [1, 3], "by position in the set");
    let stranger = coordinator.receive(Rank::new(2), asks(vec![request("x", 1)]), Instant::now());
    assert_eq!(stranger, Err(ProtocolError::NotAMember(id)));
}

#[test]
fn rule_breakers_are_named() {
    let mut coordinator = coordinator(options(2));
    let me = Rank::new(1);
    coordinator
        .receive(me, asks(vec![request("a", 1)]), Instant::now())
        .unwrap();
    let twice = coordinator.receive(me, asks(vec![request("a", 1)]), Instant::now());
    assert_eq!(twice, Err(ProtocolError::AskedTwice("a".into())));
    assert_eq!(
        coordinator.receive(me, names(9, 0), Instant::now()),
        Err(ProtocolError::UnknownNumber(CacheId(9)))
    );
    let mut lost = Request {
        kind: OpKind::Broadcast,
        ..request("r", 1)
    };
    lost.root = Rank::new(2);
    let unknown = coordinator.receive(me, asks(vec![lost]), Instant::now());
    assert_eq!(unknown, Err(ProtocolError::UnknownRoot(Rank::new(2))));
}

fn parameters(fusion_threshold: u64, cache: bool) -> Parameters {
    Parameters {
        fusion_threshold,
        cycle_time: Duration::ZERO,
        chunk_bytes: 1 << 16,
        small_allreduce_bytes: 1 << 12,
        hierarchy: crate::execute::team::Hierarchy::default(),
        cache,
    }
}

#[test]
fn tuned_parameters_hold_for_the_response_list_they_come_with() {
    let mut coordinator = coordinator(options(2));
    let start = parameters(0, true);
    coordinator.autotune(Autotuner::new(&AutotuneOptions::default(), start));
    let message = asks(vec![request("a", 1), request("b", 1)]);
    let response_list = round(&mut coordinator, 2, &message).unwrap();
    assert_eq!(response_list.tuned, Some(tuned(&start)));
    assert_eq!(operations(&response_list).len(), 2, "not fused any more");
    let response_list = round(&mut coordinator, 2, &names(1, 1)).unwrap();
    assert_eq!(response_list.tuned, None, "it is said once");
}

#[test]
fn a_cache_that_is_turned_off_is_forgotten_by_all_and_can_be_turned_on_again() {
    let mut coordinator = coordinator(options(2));
    round(&mut coordinator, 2, &asks(vec![request("a", 1)]));
    coordinator.adopt(parameters(0, false));
    // On its way when the cache was turned off.
    let response_list = round(&mut coordinator, 2, &names(1, 1)).unwrap();
    assert_eq!(response_list.evicted, [CacheId(1)]);
    assert_eq!(told(&operations(&response_list)[0][0]), ("a", None));
    let response_list = round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    assert_eq!(response_list.evicted, []);
    assert_eq!(told(&operations(&response_list)[0][0]), ("a", None));
    coordinator.adopt(parameters(0, true));
    let response_list = round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    assert_eq!(told(&operations(&response_list)[0][0]), ("a", Some(2)));
}

#[test]
fn only_allreduced_bytes_are_measured_and_the_end_is_the_end() {
    let mut coordinator = coordinator(options(1));
    let autotune = AutotuneOptions {
        warmup_samples: 0,
        steps_per_sample: 1,
        max_samples: 0,
        fixed_choices: Choice::ALL.to_vec(),
        ..AutotuneOptions::default()
    };
    coordinator.autotune(Autotuner::new(&autotune, parameters(0, true)));
    let barrier = Request {
        kind: OpKind::Barrier,
        ..request("b", 0)
    };
    for _ in 0..20 {
        round(&mut coordinator, 1, &asks(vec![barrier.clone()]));
    }
    assert!(coordinator.autotuner.is_some());
    for _ in 0..6 {
        round(&mut coordinator, 1, &asks(vec![request("a", 1)]));
    }
    assert!(coordinator.autotuner.is_none(), "five samples were enough");
}
