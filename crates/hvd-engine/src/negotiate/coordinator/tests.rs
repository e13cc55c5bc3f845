//! Whole negotiations with a clock made by hand.

use hvd_types::{DType, Device, ReduceOp, Shape};

use super::*;

fn options(size: usize) -> CoordinatorOptions {
    CoordinatorOptions {
        hosts: (0..size).map(|rank| format!("h{rank}")).collect(),
        fusion_threshold: 1 << 20,
        cache_capacity: 16,
        cycle_time: Duration::ZERO,
    }
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
    }
}

fn asks(requests: Vec<Request>) -> Ready {
    Ready {
        requests,
        ..Ready::default()
    }
}

fn names(id: u64, seen: u64) -> Ready {
    Ready {
        seen,
        cached: vec![CacheId(id)],
        ..Ready::default()
    }
}

fn operations(verdict: &Verdict) -> Vec<&[Member]> {
    verdict
        .responses
        .iter()
        .filter_map(|response| match response {
            Response::Execute(operation) => Some(operation.members.as_slice()),
            Response::Refuse { .. } => None,
        })
        .collect()
}

fn told(member: &Member) -> (&str, Option<u64>) {
    match member {
        Member::New(plan) => (&plan.name, plan.cache.map(|id| id.0)),
        Member::Known(id) => ("", Some(id.0)),
    }
}

/// Everybody asks for the same tensors; returns the verdict.
fn round(coordinator: &mut Coordinator, size: usize, message: &Ready) -> Option<Verdict> {
    for rank in 0..size {
        coordinator
            .hear(Rank::from_index(rank), message.clone())
            .unwrap();
    }
    coordinator.decide(Instant::now())
}

#[test]
fn ready_1_nothing_is_said_until_every_rank_has_asked() {
    let mut coordinator = Coordinator::new(options(3));
    let now = Instant::now();
    for rank in 0..2 {
        coordinator
            .hear(Rank::new(rank), asks(vec![request("a", 1)]))
            .unwrap();
        assert_eq!(coordinator.decide(now), None);
    }
    coordinator
        .hear(Rank::new(2), asks(vec![request("a", 1)]))
        .unwrap();
    let verdict = coordinator.decide(now).unwrap();
    assert_eq!((verdict.sequence, verdict.shutdown), (1, None));
    assert_eq!(told(&operations(&verdict)[0][0]), ("a", Some(1)));
    assert_eq!(coordinator.decide(now), None, "it is said once");
}

#[test]
fn ready_2_tensors_are_answered_in_the_order_they_became_ready() {
    let mut coordinator = Coordinator::new(CoordinatorOptions {
        fusion_threshold: 0,
        ..options(2)
    });
    let [a, b, c] = ["a", "b", "c"].map(|name| request(name, 1));
    coordinator
        .hear(Rank::new(0), asks(vec![a.clone(), b.clone(), c.clone()]))
        .unwrap();
    coordinator.hear(Rank::new(1), asks(vec![c, a, b])).unwrap();
    let verdict = coordinator.decide(Instant::now()).unwrap();
    let order: Vec<&str> = operations(&verdict)
        .iter()
        .map(|members| told(&members[0]).0)
        .collect();
    assert_eq!(order, ["c", "a", "b"]);
}

#[test]
fn tensors_that_are_ready_together_are_fused() {
    let mut coordinator = Coordinator::new(options(2));
    let both = asks(vec![request("a", 1), request("b", 2)]);
    let verdict = round(&mut coordinator, 2, &both).unwrap();
    assert_eq!(operations(&verdict).len(), 1);
    assert_eq!(operations(&verdict)[0].len(), 2);
}

#[test]
fn the_second_time_a_number_stands_for_the_tensor() {
    let mut coordinator = Coordinator::new(options(2));
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    let verdict = round(&mut coordinator, 2, &names(1, 1)).unwrap();
    assert_eq!(operations(&verdict), [[Member::Known(CacheId(1))]]);
    assert_eq!(verdict.evicted, []);
}

#[test]
fn a_changed_tensor_gets_a_new_number_and_the_old_one_is_forgotten() {
    let mut coordinator = Coordinator::new(options(2));
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    let verdict = round(&mut coordinator, 2, &asks(vec![request("a", 5)])).unwrap();
    assert_eq!(verdict.evicted, [CacheId(1)]);
    assert_eq!(told(&operations(&verdict)[0][0]), ("a", Some(2)));
}

#[test]
fn one_rank_with_a_changed_tensor_is_an_error_for_all_and_the_next_one_works() {
    let mut coordinator = Coordinator::new(options(2));
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    coordinator.hear(Rank::new(0), names(1, 1)).unwrap();
    coordinator
        .hear(Rank::new(1), asks(vec![request("a", 7)]))
        .unwrap();
    let verdict = coordinator.decide(Instant::now()).unwrap();
    let [Response::Refuse { name, reason }] = verdict.responses.as_slice() else {
        panic!("{verdict:?}");
    };
    assert_eq!(&**name, "a");
    assert_eq!(
        reason,
        "allreduce of tensor `a`: ranks do not agree on the shape: rank 0 on host `h0` has [1], \
         rank 1 on host `h1` has [7]"
    );
    let verdict = round(&mut coordinator, 2, &names(1, 2)).unwrap();
    assert_eq!(operations(&verdict), [[Member::Known(CacheId(1))]]);
}

#[test]
fn a_number_that_crosses_its_eviction_still_means_the_same_tensor() {
    let mut coordinator = Coordinator::new(CoordinatorOptions {
        cache_capacity: 1,
        ..options(2)
    });
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    coordinator.hear(Rank::new(0), names(1, 1)).unwrap();
    let verdict = round(&mut coordinator, 2, &asks(vec![request("b", 1)])).unwrap();
    assert_eq!(verdict.evicted, [CacheId(1)]);
    coordinator.hear(Rank::new(1), names(1, 1)).unwrap();
    let verdict = coordinator.decide(Instant::now()).unwrap();
    assert_eq!(told(&operations(&verdict)[0][0]).0, "a");
}

#[test]
fn a_tensor_evicted_by_a_later_one_of_the_same_verdict_is_told_in_full() {
    let mut coordinator = Coordinator::new(CoordinatorOptions {
        cache_capacity: 1,
        ..options(2)
    });
    round(&mut coordinator, 2, &asks(vec![request("a", 1)])).unwrap();
    let message = Ready {
        requests: vec![request("b", 1)],
        ..names(1, 1)
    };
    let verdict = round(&mut coordinator, 2, &message).unwrap();
    assert_eq!(verdict.evicted, [CacheId(1)]);
    let members: Vec<_> = operations(&verdict).concat();
    assert_eq!(
        members.iter().map(told).collect::<Vec<_>>(),
        [("a", None), ("b", Some(2))]
    );
}

#[test]
fn a_new_tensor_evicted_by_a_later_one_of_the_same_verdict_gets_no_number() {
    let mut coordinator = Coordinator::new(CoordinatorOptions {
        cache_capacity: 1,
        ..options(2)
    });
    let both = asks(vec![request("a", 1), request("b", 1)]);
    let verdict = round(&mut coordinator, 2, &both).unwrap();
    let members: Vec<_> = operations(&verdict).concat();
    assert_eq!(
        members.iter().map(told).collect::<Vec<_>>(),
        [("a", None), ("b", Some(2))]
    );
}

#[test]
fn ragged_gathers_remember_each_ranks_rows() {
    let mut coordinator = Coordinator::new(options(3));
    for rank in [2, 0, 1] {
        let gather = Request {
            kind: OpKind::Allgather,
            ..request("g", u64::from(rank) + 5)
        };
        coordinator
            .hear(Rank::new(rank), asks(vec![gather]))
            .unwrap();
    }
    let verdict = coordinator.decide(Instant::now()).unwrap();
    let Member::New(plan) = &operations(&verdict)[0][0] else {
        panic!("{verdict:?}")
    };
    assert_eq!(plan.first_dimensions, [5, 6, 7]);
    let verdict = round(&mut coordinator, 3, &names(1, 1)).unwrap();
    assert_eq!(operations(&verdict), [[Member::Known(CacheId(1))]]);
}

#[test]
fn a_least_time_between_verdicts_is_kept_by_the_given_clock() {
    let cycle_time = Duration::from_millis(5);
    let mut coordinator = Coordinator::new(CoordinatorOptions {
        cycle_time,
        ..options(1)
    });
    let start = Instant::now();
    let me = Rank::new(0);
    coordinator.hear(me, asks(vec![request("a", 1)])).unwrap();
    assert!(
        coordinator.decide(start).is_some(),
        "the first one need not wait"
    );
    coordinator.hear(me, asks(vec![request("b", 1)])).unwrap();
    assert_eq!(coordinator.due(), Some(start + cycle_time));
    assert_eq!(coordinator.decide(start + Duration::from_millis(4)), None);
    coordinator.hear(me, asks(vec![request("c", 1)])).unwrap();
    let verdict = coordinator.decide(start + cycle_time).unwrap();
    assert_eq!(
        operations(&verdict)[0].len(),
        2,
        "what came meanwhile goes along"
    );
    assert_eq!(coordinator.due(), None);
}

#[test]
fn shutdown_is_said_at_once_with_what_is_ready() {
    let mut coordinator = Coordinator::new(options(2));
    coordinator
        .hear(Rank::new(1), asks(vec![request("a", 1)]))
        .unwrap();
    let leaving = Ready {
        shutdown: true,
        ..asks(vec![request("a", 1)])
    };
    coordinator.hear(Rank::new(0), leaving).unwrap();
    let verdict = coordinator.decide(Instant::now()).unwrap();
    assert_eq!(verdict.shutdown, Some(Rank::new(0)));
    assert_eq!(operations(&verdict).len(), 1);
}

#[test]
fn rule_breakers_are_named() {
    let mut coordinator = Coordinator::new(options(2));
    let me = Rank::new(1);
    coordinator.hear(me, asks(vec![request("a", 1)])).unwrap();
    let twice = coordinator.hear(me, asks(vec![request("a", 1)]));
    assert_eq!(twice, Err(ProtocolError::AskedTwice("a".into())));
    assert_eq!(
        coordinator.hear(me, names(9, 0)),
        Err(ProtocolError::UnknownNumber(CacheId(9)))
    );
    let mut lost = request("r", 1);
    lost.root = Rank::new(2);
    let unknown = coordinator.hear(me, asks(vec![lost]));
    assert_eq!(unknown, Err(ProtocolError::UnknownRoot(Rank::new(2))));
}
