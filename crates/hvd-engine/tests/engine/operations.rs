//! Whole engines, one per rank, each on a thread of its own, over real transports.

use std::time::{Duration, Instant};

use crate::jobs::{
    Job, floats, pause, run, run_on_hosts, run_until_death, run_with, source, tensor,
};
use hvd_engine::{Error, Hierarchy, OperationOutput, Submission};
use hvd_transport::testing::Wire;
use hvd_types::{DType, OpKind, ProcessSetId, Rank, ReduceOp, Shape};

fn named(name: &str, values: &[f32]) -> Submission {
    Submission {
        name: Some(name.into()),
        ..tensor(OpKind::Allreduce, values)
    }
}

fn sums_agree_on_every_rank_for_any_size(wire: Wire) {
    for size in 1..=4 {
        let results = run(wire, size, |job| {
            let mine = job.rank_number();
            floats(&job.call(named("x", &[mine, 1.0])).unwrap())
        });
        let ranks = u16::try_from(size).unwrap();
        let sum = f32::from(ranks * (ranks - 1) / 2);
        assert_eq!(results, vec![vec![sum, f32::from(ranks)]; size]);
    }
}

fn every_reduction_and_both_factors(wire: Wire) {
    let results = run(wire, 2, |job| {
        let mine = job.rank_number() + 2.0;
        let reduce = |op, prescale, postscale| {
            let submission = Submission {
                reduce_op: op,
                prescale,
                postscale,
                ..named(&format!("{op}"), &[mine])
            };
            floats(&job.call(submission).unwrap())[0]
        };
        [
            reduce(ReduceOp::Sum, 0.5, 10.0),
            reduce(ReduceOp::Average, 1.0, 2.0),
            reduce(ReduceOp::Min, 1.0, 1.0),
            reduce(ReduceOp::Max, 1.0, 1.0),
            reduce(ReduceOp::Product, 1.0, 1.0),
        ]
    });
    assert_eq!(results, vec![[25.0, 5.0, 2.0, 3.0, 6.0]; 2]);
}

fn the_way_by_hosts_gives_the_same_results(wire: Wire) {
    let hierarchy = Hierarchy {
        allreduce: true,
        allgather: true,
    };
    let options = hvd_engine::EngineOptions {
        hierarchy,
        ..Default::default()
    };
    run_on_hosts(wire, &["a", "b", "a", "b"], &options, |job| {
        for length in [1, 5, 70_000] {
            let mine = vec![job.rank_number(); length];
            assert_eq!(
                floats(&job.call(named("x", &mine)).unwrap()),
                vec![6.0; length]
            );
        }
        let gather = Submission {
            name: Some("g".into()),
            ..tensor(OpKind::Allgather, &[job.rank_number()])
        };
        assert_eq!(floats(&job.call(gather).unwrap()), [0.0, 1.0, 2.0, 3.0]);
    });
}

/// Orthogonal tensors add up, equal ones are averaged, each for itself although they are fused.
fn adasum_looks_at_each_tensor_of_a_fused_buffer(wire: Wire) {
    run(wire, 2, |job| {
        let adasum = |name: &str, values: &[f32]| {
            let submission = Submission {
                reduce_op: ReduceOp::Adasum,
                ..named(name, values)
            };
            job.start(submission).unwrap()
        };
        for _ in 0..3 {
            let mine = [[1.0, 0.0], [0.0, 1.0]][job.rank.index()];
            let orthogonal = adasum("orthogonal", &mine);
            let equal = adasum("equal", &[2.0, 2.0]);
            assert_eq!(floats(&job.finish(orthogonal).unwrap()), [1.0, 1.0]);
            assert_eq!(floats(&job.finish(equal).unwrap()), [2.0, 2.0]);
        }
    });
    run(wire, 3, |job| {
        let submission = Submission {
            reduce_op: ReduceOp::Adasum,
            ..named("x", &[1.0])
        };
        let error = job.start(submission).unwrap_err().to_string();
        assert_eq!(
            error,
            "Adasum needs a number of ranks that is a power of two, not 3"
        );
    });
}

fn many_operations_in_flight_are_fused_and_all_arrive(wire: Wire) {
    let results = run(wire, 3, |job| {
        for step in 0..5 {
            let handles: Vec<_> = (0..50_u8)
                .map(|index| {
                    let value = f32::from(index) + job.rank_number();
                    job.start(named(&format!("t{index}"), &[value, 1.0]))
                        .unwrap()
                })
                .collect();
            for (index, handle) in (0..50_u8).zip(handles) {
                let result = floats(&job.finish(handle).unwrap());
                assert_eq!(result, [f32::from(index) * 3.0 + 3.0, 3.0], "step {step}");
            }
        }
        true
    });
    assert_eq!(results, [true; 3]);
}

fn allgather_joins_ragged_rows_alone_and_fused(wire: Wire) {
    run(wire, 3, |job| {
        let rows = job.rank.index();
        let values = vec![job.rank_number(); rows * 2];
        let gather = |name: &str| {
            let shape = Shape::new([rows as u64, 2]);
            let bytes = source(&values);
            let submission = Submission::new(OpKind::Allgather, DType::Float32, shape, bytes);
            Submission {
                name: Some(name.into()),
                ..submission
            }
        };
        for _ in 0..3 {
            let handles = ["a", "b", "c"].map(|name| job.start(gather(name)).unwrap());
            for handle in handles {
                let outcome = job.finish(handle).unwrap();
                assert_eq!(outcome.shape, Shape::new([3, 2]));
                assert_eq!(floats(&outcome), [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
            }
        }
    });
}

fn broadcast_from_every_root(wire: Wire) {
    run(wire, 3, |job| {
        for root in 0..3_u8 {
            let submission = Submission {
                name: Some(format!("b{root}").into()),
                root: Rank::new(root.into()),
                ..tensor(OpKind::Broadcast, &[job.rank_number(); 5])
            };
            assert_eq!(floats(&job.call(submission).unwrap()), [f32::from(root); 5]);
        }
    });
}

/// The example of the specification: the last row of each rank is not sent.
fn alltoall_sends_rows_where_the_splits_say(wire: Wire) {
    let results = run(wire, 2, |job| {
        let base = job.rank_number() * 10.0;
        let rows: Vec<f32> = (0..4_u8).map(|row| base + f32::from(row)).collect();
        let splits = if job.rank.index() == 0 {
            vec![1, 2]
        } else {
            vec![3, 0]
        };
        let submission = Submission {
            splits,
            ..tensor(OpKind::Alltoall, &rows)
        };
        let outcome = job.call(submission).unwrap();
        (floats(&outcome), outcome.received_splits)
    });
    assert_eq!(results[0], (vec![0.0, 10.0, 11.0, 12.0], vec![1, 3]));
    assert_eq!(results[1], (vec![1.0, 2.0], vec![2, 0]));
}

fn reducescatter_hands_out_uneven_shares_alone_and_fused(wire: Wire) {
    run(wire, 3, |job| {
        let values: Vec<f32> = (0..5_u8)
            .map(|row| f32::from(row) + job.rank_number())
            .collect();
        let expected: [&[f32]; 3] = [&[1.0, 2.0], &[3.0, 4.0], &[5.0]];
        let handles = ["a", "b"].map(|name| {
            let submission = Submission {
                name: Some(name.into()),
                reduce_op: ReduceOp::Average,
                ..tensor(OpKind::Reducescatter, &values)
            };
            job.start(submission).unwrap()
        });
        for handle in handles {
            assert_eq!(
                floats(&job.finish(handle).unwrap()),
                expected[job.rank.index()]
            );
        }
    });
}

fn barrier_waits_for_the_last(wire: Wire) {
    let start = Instant::now();
    let left = run(wire, 2, move |job| {
        if job.rank.index() == 1 {
            pause(Duration::from_millis(100));
        }
        job.call(Submission::barrier(ProcessSetId::GLOBAL)).unwrap();
        start.elapsed()
    });
    assert!(
        left.iter().all(|&time| time >= Duration::from_millis(100)),
        "{left:?}"
    );
}

fn a_mismatch_is_told_to_all_and_the_next_operation_works(wire: Wire) {
    run(wire, 2, |job| {
        let wrong = vec![0.0; 3 + job.rank.index()];
        let error = job.call(named("x", &wrong)).unwrap_err();
        let Error::Mismatch(text) = &error else {
            panic!("{error}")
        };
        assert!(text.contains("do not agree on the shape"), "{text}");
        assert_eq!(floats(&job.call(named("x", &[1.0])).unwrap()), [2.0]);
    });
}

fn a_tensor_may_change_its_shape_between_steps(wire: Wire) {
    run(wire, 2, |job| {
        for length in [4, 4, 4, 7, 7, 4, 1] {
            let result = floats(&job.call(named("x", &vec![1.0; length])).unwrap());
            assert_eq!(result, vec![2.0; length]);
        }
    });
}

fn more_tensors_than_the_cache_holds(wire: Wire) {
    let options = hvd_engine::EngineOptions {
        cache_capacity: 3,
        ..Default::default()
    };
    run_with(wire, 2, &options, |job| {
        for step in 0..4 {
            for index in 0..(4 + step) {
                let result = job.call(named(&format!("t{index}"), &[1.0])).unwrap();
                assert_eq!(floats(&result), [2.0]);
            }
        }
    });
}

fn sums_are_right_when_algorithms_are_chosen_by_measured_cost(wire: Wire) {
    let options = hvd_engine::EngineOptions {
        measure_network: true,
        ..Default::default()
    };
    for size in [2, 3, 5] {
        run_with(wire, size, &options, move |job| {
            let sum: f32 = (0..u16::try_from(size).unwrap()).map(f32::from).sum();
            for length in [1, 3, 5_000, 40_000, 300_000] {
                let mine = vec![job.rank_number(); length];
                let result = floats(&job.call(named("x", &mine)).unwrap());
                assert!(result == vec![sum; result.len()], "{length}");
            }
        });
    }
}

fn large_tensors_are_reduced_whatever_their_length(wire: Wire) {
    run(wire, 2, |job| {
        for length in [1 << 20, (1 << 20) - 1, 1_500_001] {
            let mine = vec![job.rank_number() + 1.0; length];
            let result = floats(&job.call(named("x", &mine)).unwrap());
            assert!(result == vec![3.0; length], "{length}");
        }
    });
}

fn a_name_in_flight_is_refused_and_the_first_one_completes(wire: Wire) {
    run(wire, 2, |job| {
        let first = (job.rank.index() == 0).then(|| {
            let first = job.start(named("x", &[1.0])).unwrap();
            let second = job.start(named("x", &[1.0]));
            assert_eq!(
                second.unwrap_err(),
                Error::DuplicateName { name: "x".into() }
            );
            first
        });
        job.call(Submission::barrier(ProcessSetId::GLOBAL)).unwrap();
        let first = first.unwrap_or_else(|| job.start(named("x", &[1.0])).unwrap());
        assert_eq!(floats(&job.finish(first).unwrap()), [2.0]);
    });
}

fn shutdown_of_one_rank_fails_what_others_wait_for_and_names_it(wire: Wire) {
    run(wire, 3, |job| {
        let leaves = job.rank.index() == 2;
        if leaves {
            job.engine.shutdown();
        } else {
            let error = job.call(named("x", &[1.0])).unwrap_err().to_string();
            assert!(
                error.starts_with("horovod has been shut down by rank 2 on host "),
                "{error}"
            );
            job.engine.shutdown();
        }
        let late = job.start(named("y", &[1.0])).unwrap_err();
        assert_eq!(late == Error::ShutDown, leaves, "{late}");
    });
}

fn empty_and_large_tensors(wire: Wire) {
    run(wire, 2, |job| {
        assert_eq!(floats(&job.call(named("empty", &[])).unwrap()), []);
        let large = vec![1.5; 300_000];
        let result: OperationOutput = job.call(named("large", &large)).unwrap();
        assert_eq!(floats(&result), vec![3.0; 300_000]);
    });
}

fn a_dead_rank_is_named_by_every_pending_and_later_call(wire: Wire) {
    let results = run_until_death(wire, 3, Rank::new(1), |job: &Job| {
        let pending = job.call(named("x", &[1.0])).unwrap_err();
        let later = job.start(named("y", &[1.0])).unwrap_err();
        (pending.to_string(), later.to_string())
    });
    for (pending, later) in results {
        assert!(
            pending.starts_with("rank 1 on host `localhost` "),
            "{pending}"
        );
        assert!(later.starts_with("rank 1 on host `localhost` "), "{later}");
    }
}

over_every_wire!(
    the_way_by_hosts_gives_the_same_results,
    sums_agree_on_every_rank_for_any_size,
    every_reduction_and_both_factors,
    adasum_looks_at_each_tensor_of_a_fused_buffer,
    many_operations_in_flight_are_fused_and_all_arrive,
    allgather_joins_ragged_rows_alone_and_fused,
    broadcast_from_every_root,
    alltoall_sends_rows_where_the_splits_say,
    reducescatter_hands_out_uneven_shares_alone_and_fused,
    barrier_waits_for_the_last,
    a_mismatch_is_told_to_all_and_the_next_operation_works,
    a_tensor_may_change_its_shape_between_steps,
    more_tensors_than_the_cache_holds,
    sums_are_right_when_algorithms_are_chosen_by_measured_cost,
    large_tensors_are_reduced_whatever_their_length,
    a_name_in_flight_is_refused_and_the_first_one_completes,
    shutdown_of_one_rank_fails_what_others_wait_for_and_names_it,
    empty_and_large_tensors,
    a_dead_rank_is_named_by_every_pending_and_later_call,
);
