//! Process sets, joins and groups: whole engines, one per rank, over real transports.

use crate::jobs::{Job, floats, run, run_with, tensor};
use hvd_engine::{EngineOptions, Error, JoinDivisor, SetChange, Submission};
use hvd_transport::testing::Wire;
use hvd_types::{OpKind, ProcessSetId, Rank, ReduceOp};

fn ranks(numbers: &[u32]) -> Vec<Rank> {
    numbers.iter().copied().map(Rank::new).collect()
}

fn add(job: &Job, numbers: &[u32]) -> ProcessSetId {
    job.change(SetChange::Add(ranks(numbers))).unwrap()
}

fn on(process_set: ProcessSetId, kind: OpKind, values: &[f32]) -> Submission {
    let name = Some("x".into());
    Submission {
        name,
        process_set,
        ..tensor(kind, values)
    }
}

fn disjoint_sets_reduce_by_themselves_under_the_same_name(wire: Wire) {
    run(wire, 4, |job| {
        let even = add(job, &[0, 2]);
        let odd = add(job, &[1, 3]);
        let (mine, other) = if job.rank.index() % 2 == 0 {
            (even, odd)
        } else {
            (odd, even)
        };
        for _ in 0..3 {
            let result = job
                .call(on(mine, OpKind::Allreduce, &[job.rank_number()]))
                .unwrap();
            let expected = if mine == even { 2.0 } else { 4.0 };
            assert_eq!(floats(&result), [expected]);
        }
        let refused = job.start(on(other, OpKind::Allreduce, &[1.0])).unwrap_err();
        assert!(
            refused.to_string().contains("is not in process set"),
            "{refused}"
        );
    });
}

fn every_collective_works_in_a_set_without_rank_0(wire: Wire) {
    run(wire, 3, |job| {
        let set = add(job, &[2, 1]);
        if job.rank.index() > 0 {
            use_every_collective(job, set);
        }
    });
}

/// On ranks 1 and 2.
fn use_every_collective(job: &Job, set: ProcessSetId) {
    let mine = job.rank_number();
    let call = |submission| floats(&job.call(submission).unwrap());
    let sum = on(set, OpKind::Allreduce, &[mine]);
    let average = Submission {
        reduce_op: ReduceOp::Average,
        ..sum
    };
    assert_eq!(call(average), [1.5]);
    assert_eq!(call(on(set, OpKind::Allgather, &[mine])), [1.0, 2.0]);
    let from = |root| Submission {
        root: Rank::new(root),
        ..on(set, OpKind::Broadcast, &[mine])
    };
    assert_eq!(call(from(2)), [2.0]);
    assert_eq!(call(on(set, OpKind::Reducescatter, &[mine, mine])), [3.0]);
    assert_eq!(call(on(set, OpKind::Alltoall, &[mine, mine])), [1.0, 2.0]);
    job.call(Submission::barrier(set)).unwrap();
    let outside = job.start(from(0)).unwrap_err().to_string();
    assert!(
        outside.contains("root rank 0 is not in process set"),
        "{outside}"
    );
}

fn sets_are_added_removed_and_numbered_alike_everywhere(wire: Wire) {
    let numbers = run(wire, 2, |job| {
        let first = add(job, &[0]);
        let second = add(job, &[1]);
        let again = job.change(SetChange::Add(ranks(&[0]))).unwrap_err();
        assert!(matches!(again, Error::ProcessSet(_)), "{again}");
        job.change(SetChange::Remove(first)).unwrap();
        assert_eq!(job.engine.process_sets().members(first), None);
        let unknown = job.start(on(first, OpKind::Allreduce, &[1.0])).unwrap_err();
        assert!(unknown.to_string().contains("does not exist"), "{unknown}");
        let third = add(job, &[0]);
        [first, second, third].map(ProcessSetId::number)
    });
    assert_eq!(numbers, [[1, 2, 1], [1, 2, 1]]);
}

fn pending_operations_of_a_removed_set_fail(wire: Wire) {
    run(wire, 3, |job| {
        let set = add(job, &[0, 1]);
        let pending =
            (job.rank.index() == 1).then(|| job.start(on(set, OpKind::Allreduce, &[1.0])).unwrap());
        job.change(SetChange::Remove(set)).unwrap();
        if let Some(handle) = pending {
            assert_eq!(job.finish(handle).unwrap_err(), Error::Removed(set));
        }
    });
}

/// Rank 0 joins first; the others reduce once more, for each reduction.
fn joined_ranks_change_nobodys_result(wire: Wire) {
    let last = run(wire, 3, |job| {
        let reduce = |op: ReduceOp| {
            let name = Some(format!("{op}").into());
            let values = [job.rank_number() + 2.0, -1.0];
            let submission = tensor(OpKind::Allreduce, &values);
            let submission = Submission {
                name,
                reduce_op: op,
                prescale: 2.0,
                ..submission
            };
            floats(&job.call(submission).unwrap())
        };
        let ops = [
            ReduceOp::Sum,
            ReduceOp::Min,
            ReduceOp::Max,
            ReduceOp::Product,
        ];
        // Known to the response cache before a rank joins.
        let _ = ops.map(reduce);
        if job.rank.index() > 0 {
            assert_eq!(
                ops.map(reduce).to_vec(),
                [[14.0, -4.0], [6.0, -2.0], [8.0, -2.0], [48.0, 4.0]]
            );
            let third = 1.0_f32 / 3.0;
            assert_eq!(reduce(ReduceOp::Average), [14.0 * third, -4.0 * third]);
        }
        job.call(Submission::join()).unwrap().number.unwrap()
    });
    assert!(
        last[0] != 0 && last.iter().all(|rank| rank == &last[0]),
        "{last:?}"
    );
}

fn averages_may_be_over_the_contributors(wire: Wire) {
    let options = EngineOptions {
        join_average: JoinDivisor::Contributors,
        ..Default::default()
    };
    run_with(wire, 3, &options, |job| {
        if job.rank.index() > 0 {
            let mine = tensor(OpKind::Allreduce, &[job.rank_number()]);
            let average = Submission {
                reduce_op: ReduceOp::Average,
                name: Some("a".into()),
                ..mine
            };
            assert_eq!(floats(&job.call(average).unwrap()), [1.5]);
        }
        job.call(Submission::join()).unwrap();
    });
}

fn what_needs_everybody_fails_while_a_rank_has_joined(wire: Wire) {
    run(wire, 2, |job| {
        if job.rank.index() == 1 {
            for kind in [OpKind::Allgather, OpKind::Broadcast, OpKind::Reducescatter] {
                let error = job
                    .call(on(ProcessSetId::GLOBAL, kind, &[1.0, 2.0]))
                    .unwrap_err();
                assert!(
                    error.to_string().contains("while ranks have joined"),
                    "{error}"
                );
            }
        }
        job.call(Submission::join()).unwrap();
        let after = job
            .call(on(ProcessSetId::GLOBAL, OpKind::Allgather, &[1.0]))
            .unwrap();
        assert_eq!(floats(&after), [1.0, 1.0]);
    });
}

fn a_group_starts_whole_or_not_at_all(wire: Wire) {
    run(wire, 2, |job| {
        let group = |lengths: &[usize]| {
            let member = |&length: &usize| tensor(OpKind::Allreduce, &vec![1.0; length]);
            lengths.iter().map(member).collect()
        };
        let submit = |lengths: &[usize]| job.engine.submit_group(Some("g".into()), group(lengths));
        let handles = submit(&[1, 2, 3]).unwrap();
        for (length, handle) in (1..).zip(handles) {
            assert_eq!(floats(&job.finish(handle).unwrap()), vec![2.0; length]);
        }
        job.call(Submission::barrier(ProcessSetId::GLOBAL)).unwrap();
        // The second member's name is taken: nothing of the group may start.
        let blocker = Submission {
            name: Some("g_2of2".into()),
            ..tensor(OpKind::Allreduce, &[1.0])
        };
        if job.rank.index() == 0 {
            let first = job.start(blocker).unwrap();
            let error = submit(&[1, 1]).unwrap_err();
            assert_eq!(
                error,
                Error::DuplicateName {
                    name: "g_2of2".into()
                }
            );
            job.call(Submission::barrier(ProcessSetId::GLOBAL)).unwrap();
            assert_eq!(floats(&job.finish(first).unwrap()), [2.0]);
        } else {
            job.call(Submission::barrier(ProcessSetId::GLOBAL)).unwrap();
            assert_eq!(floats(&job.call(blocker).unwrap()), [2.0]);
        }
        let handles = submit(&[1, 1]).unwrap();
        for handle in handles {
            assert_eq!(floats(&job.finish(handle).unwrap()), [2.0]);
        }
    });
}

over_every_wire!(
    disjoint_sets_reduce_by_themselves_under_the_same_name,
    every_collective_works_in_a_set_without_rank_0,
    sets_are_added_removed_and_numbered_alike_everywhere,
    pending_operations_of_a_removed_set_fail,
    joined_ranks_change_nobodys_result,
    averages_may_be_over_the_contributors,
    what_needs_everybody_fails_while_a_rank_has_joined,
    a_group_starts_whole_or_not_at_all,
);
