//! Operations completed by callback: the callback is called, whatever happens.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use hvd_engine::{Error, OperationOutput, Result, Submission};
use hvd_testkit::DEADLINE;
use hvd_transport::testing::Wire;
use hvd_types::{OpKind, ProcessSetId};

use crate::jobs::{Job, floats, pause, run, tensor};

fn named(name: &str, values: &[f32]) -> Submission {
    Submission {
        name: Some(name.into()),
        ..tensor(OpKind::Allreduce, values)
    }
}

fn start(job: &Job, submission: Submission) -> Receiver<Result<OperationOutput>> {
    let (sender, result) = mpsc::channel();
    job.engine
        .submit_with_callback(submission, move |ended| sender.send(ended).unwrap());
    result
}

fn start_group(job: &Job, submissions: Vec<Submission>) -> Receiver<Result<Vec<OperationOutput>>> {
    let (sender, results) = mpsc::channel();
    let then = move |ended| sender.send(ended).unwrap();
    job.engine
        .submit_group_with_callback(&"group".into(), submissions, then);
    results
}

fn work(
    job: &Job,
    submissions: Vec<Submission>,
    limit: Duration,
) -> Receiver<Result<Vec<OperationOutput>>> {
    let (sender, results) = mpsc::channel();
    let then = move |ended| sender.send(ended).unwrap();
    job.engine
        .work_with_callback(&"work".into(), submissions, limit, then);
    results
}

fn ended<T>(result: &Receiver<T>) -> T {
    result.recv_timeout(DEADLINE).expect("an end in time")
}

fn many_at_once_and_groups(wire: Wire) {
    run(wire, 3, |job| {
        let mine = job.rank_number();
        for round in 0_u8..20 {
            let sums: Vec<_> = (0..40)
                .map(|number| start(job, named(&format!("t{number}"), &[mine, 1.0])))
                .collect();
            let group = start_group(
                job,
                vec![named("", &[mine]), named("", &[1.0, round.into()])],
            );
            for sum in &sums {
                assert_eq!(floats(&ended(sum).unwrap()), [3.0, 3.0]);
            }
            let group = ended(&group).unwrap();
            assert_eq!(floats(&group[0]), [3.0]);
            assert_eq!(floats(&group[1]), [3.0, 3.0 * f32::from(round)]);
        }
    });
}

/// A schedule waits for two tensors and only one of them comes, which no caller waits for.
fn a_schedule_does_not_keep_what_it_lacks_others_for(wire: Wire) {
    run(wire, 2, |job| {
        for _ in 0..10 {
            let pair = [
                start(job, named("a", &[1.0])),
                start(job, named("b", &[2.0])),
            ];
            for result in &pair {
                ended(result).unwrap();
            }
        }
        let alone = start(job, named("a", &[1.0]));
        assert_eq!(floats(&ended(&alone).unwrap()), [2.0]);
    });
}

/// The program waits for each operation before it begins the next, without a call that the engine
/// sees. A schedule takes them for one operation, until it notices.
fn who_waits_without_a_word_does_not_wait_for_the_timeout_of_a_schedule(wire: Wire) {
    run(wire, 2, |job| {
        for _ in 0..40 {
            for name in ["a", "b"] {
                let begun = Instant::now();
                ended(&start(job, named(name, &[1.0]))).unwrap();
                assert!(begun.elapsed() < Duration::from_millis(900));
            }
        }
    });
}

/// The thread that submits carries the operation out, unless the engine thread is at it already.
fn callers_that_work_themselves(wire: Wire) {
    run(wire, 2, |job| {
        for round in 0_u8..40 {
            let one = work(job, vec![named("", &[1.0])], DEADLINE);
            assert_eq!(floats(&ended(&one).unwrap()[0]), [2.0]);
            let pair = vec![named("", &[round.into()]), named("", &[3.0])];
            let pair = ended(&work(job, pair, DEADLINE)).unwrap();
            assert_eq!(floats(&pair[0]), [2.0 * f32::from(round)]);
        }
    });
}

/// The other rank comes later than the caller's patience lasts.
fn callers_that_give_up_working_are_still_told(wire: Wire) {
    run(wire, 2, |job| {
        for _ in 0..5 {
            if job.rank_number() > 0.0 {
                pause(Duration::from_millis(20));
            }
            let late = work(job, vec![named("", &[1.0])], Duration::from_millis(1));
            assert_eq!(floats(&ended(&late).unwrap()[0]), [2.0]);
        }
        let mut stranger = named("", &[1.0]);
        stranger.process_set = ProcessSetId::new(9);
        let refused = work(job, vec![stranger], DEADLINE).try_recv().unwrap();
        assert!(matches!(refused, Err(Error::Argument(_))));
    });
}

fn refusals_come_the_same_way(wire: Wire) {
    run(wire, 2, |job| {
        let mut stranger = named("x", &[1.0]);
        stranger.process_set = ProcessSetId::new(9);
        let refused = ended(&start(job, stranger)).unwrap_err();
        assert!(matches!(refused, Error::Argument(_)), "{refused}");

        let mut stranger = named("", &[1.0]);
        stranger.process_set = ProcessSetId::new(9);
        let group = start_group(job, vec![named("", &[1.0]), stranger]);
        let refused = ended(&group).unwrap_err();
        assert!(matches!(refused, Error::Argument(_)), "{refused}");
        assert!(group.try_recv().is_err(), "told once");
        // Nothing of the group is left behind.
        let group = start_group(job, vec![named("", &[1.0]), named("", &[2.0])]);
        assert_eq!(floats(&ended(&group).unwrap()[1]), [4.0]);
    });
}

fn the_end_of_the_engine_ends_them(wire: Wire) {
    run(wire, 2, |job| {
        if job.rank.number() == 0 {
            let pending = start(job, named("only here", &[1.0]));
            job.engine.shutdown();
            assert_eq!(ended(&pending), Err(Error::ShutDown));
        }
    });
}

over_every_wire!(
    many_at_once_and_groups,
    a_schedule_does_not_keep_what_it_lacks_others_for,
    who_waits_without_a_word_does_not_wait_for_the_timeout_of_a_schedule,
    callers_that_work_themselves,
    callers_that_give_up_working_are_still_told,
    refusals_come_the_same_way,
    the_end_of_the_engine_ends_them,
);
