//! Schedules of one rank, whose partners' notices are made by hand.

use hvd_types::Topology;
use hvd_wire::{CacheId, SetChange, TensorRef};

use super::*;
use crate::execute::team::Team;
use crate::handle::Completer;
use crate::queue::BoxedEntry;
use crate::test_entries::{agree, entry, entry_with, operation};

const GLOBAL: ProcessSetId = ProcessSetId::GLOBAL;
const ME: Rank = Rank::new(0);
const OTHER: Rank = Rank::new(1);
const NUMBER: u64 = 3;

/// A rank that knows tensors `a` and `b`, and runs a schedule in which they follow each other.
fn running(size: usize) -> (ScheduleRunner, LocalSet) {
    let topology = Topology::new((0..size).map(|rank| format!("h{rank}")));
    let team = Team::new(topology.members().into(), &topology);
    let mut global = LocalSet::new(GLOBAL, team);
    agree(&mut global, "a", 0);
    agree(&mut global, "b", 1);
    let mut runner = ScheduleRunner::new(ME, size);
    assert!(runner.begin(schedule(), &global, false).unwrap());
    (runner, global)
}

fn schedule() -> Schedule {
    let cached = |id| operation(vec![TensorRef::Cached(CacheId(id))]);
    Schedule {
        number: NUMBER,
        operations: vec![cached(0), cached(1)],
    }
}

fn submit(runner: &mut ScheduleRunner, global: &mut LocalSet, entry: BoxedEntry) -> bool {
    let submissions = Submissions {
        entries: vec![entry],
        ..Submissions::default()
    };
    runner.enter(submissions, global, Instant::now())
}

fn submit_named(runner: &mut ScheduleRunner, global: &mut LocalSet, name: &str) -> bool {
    submit(runner, global, entry(GLOBAL, name, 2.0).0)
}

fn notice(operation: u64, value: f32) -> ReadyNotice {
    ReadyNotice {
        schedule: NUMBER,
        operation,
        tensors: value.to_ne_bytes().to_vec(),
    }
}

/// Executes what is ready, as the cycle does.
fn execute(runner: &mut ScheduleRunner, global: &mut LocalSet) -> Option<Vec<Vec<u8>>> {
    let ready = runner.take_operation(ME).unwrap();
    global.tasks(&ready.operation).unwrap();
    runner.executed(Instant::now());
    ready.inlined
}

#[test]
fn an_operation_is_executed_when_all_ranks_have_called_for_it() {
    let (mut runner, mut global) = running(2);
    assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Idle);
    assert!(submit_named(&mut runner, &mut global, "a"));
    assert_eq!(
        runner.step(&global).unwrap(),
        ScheduleStep::Call(&notice(0, 2.0), &[OTHER])
    );
    assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Await(OTHER));
    runner.receive(OTHER, notice(0, 5.0));
    assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Execute);
    let tensors = [2.0_f32, 5.0].map(|value| value.to_ne_bytes().to_vec());
    assert_eq!(execute(&mut runner, &mut global), Some(tensors.to_vec()));
    assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Idle);
}

#[test]
fn a_notice_that_came_early_is_kept() {
    let (mut runner, mut global) = running(2);
    runner.receive(OTHER, notice(0, 5.0));
    runner.receive(OTHER, notice(1, 6.0));
    for name in ["a", "b"] {
        assert!(submit_named(&mut runner, &mut global, name));
        let step = runner.step(&global).unwrap();
        assert!(matches!(step, ScheduleStep::Call(..)), "{step:?}");
        assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Execute);
        execute(&mut runner, &mut global);
    }
    assert!(runner.has_left(3) && !runner.has_left(2));
}

#[test]
fn among_many_ranks_notices_are_forwarded_and_carry_no_tensors() {
    let (mut runner, mut global) = running(16);
    assert!(submit_named(&mut runner, &mut global, "a"));
    let empty = ReadyNotice {
        tensors: Vec::new(),
        ..notice(0, 0.0)
    };
    let mut next = 1;
    assert_eq!(
        runner.step(&global).unwrap(),
        ScheduleStep::Call(&empty, &[Rank::new(next)])
    );
    loop {
        let from = Rank::new(16 - next);
        assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Await(from));
        runner.receive(from, empty.clone());
        next *= 2;
        let step = runner.step(&global).unwrap();
        if next == 16 {
            assert_eq!(step, ScheduleStep::Execute);
            break;
        }
        assert_eq!(step, ScheduleStep::Forward(&empty, Rank::new(next)));
    }
    assert_eq!(execute(&mut runner, &mut global), None);
}

#[test]
fn what_does_not_fit_is_deferred_until_the_end() {
    let (mut runner, mut global) = running(2);
    assert!(submit_named(&mut runner, &mut global, "a"));
    assert!(!submit_named(&mut runner, &mut global, "stranger"));
    let elsewhere = entry(ProcessSetId::new(1), "a", 1.0).0;
    assert!(!submit(&mut runner, &mut global, elsewhere));
    let change = SetChange::Remove(ProcessSetId::new(1));
    let submissions = Submissions {
        entries: Vec::new(),
        changes: vec![change.clone()],
        shutdown: true,
    };
    assert!(!runner.enter(submissions, &mut global, Instant::now()));
    assert!(runner.has_deferred_entries());
    let deferred = runner.end();
    assert_eq!(deferred.entries.len(), 2);
    assert_eq!((deferred.changes, deferred.shutdown), (vec![change], true));
    assert!(!runner.has_deferred_entries() && !runner.is_running());
}

#[test]
fn a_halted_schedule_calls_for_nothing_and_keeps_the_calls_it_made() {
    let (mut runner, mut global) = running(2);
    assert!(runner.runs(NUMBER) && !runner.runs(NUMBER + 1));
    assert!(submit_named(&mut runner, &mut global, "a"));
    runner.step(&global).unwrap();
    let halt = ScheduleHalt {
        schedule: NUMBER,
        next: 1,
    };
    assert_eq!(runner.halt(), Some(halt));
    assert_eq!(runner.halt(), None, "rank 0 learns of it once");
    assert!(!submit_named(&mut runner, &mut global, "b"));
    assert_eq!(runner.barrier_step(), ScheduleStep::Await(OTHER));
    runner.receive(OTHER, notice(0, 1.0));
    assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Execute);
    execute(&mut runner, &mut global);
    assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Idle);
}

#[test]
fn a_schedule_begins_with_what_is_pending_or_halts() {
    let (mut runner, mut global) = running(2);
    assert!(submit_named(&mut runner, &mut global, "b"));
    runner.end();
    assert!(
        !runner.begin(schedule(), &global, true).unwrap(),
        "others wait"
    );
    runner.end();
    assert!(runner.begin(schedule(), &global, false).unwrap());
    assert!(submit_named(&mut runner, &mut global, "a"));
    runner.receive(OTHER, notice(0, 1.0));
    runner.step(&global).unwrap();
    assert_eq!(runner.step(&global).unwrap(), ScheduleStep::Execute);
    execute(&mut runner, &mut global);
    let step = runner.step(&global).unwrap();
    assert!(
        matches!(step, ScheduleStep::Call(..)),
        "b was there: {step:?}"
    );
}

#[test]
fn a_schedule_of_unknown_tensors_is_an_error() {
    let (mut runner, global) = running(2);
    let mut schedule = schedule();
    schedule.operations[0].tensors = vec![TensorRef::Cached(CacheId(9))];
    let error = runner.begin(schedule, &global, false).unwrap_err();
    assert!(error.to_string().contains("schedule 3 makes no sense here"));
}

#[test]
fn a_blocked_caller_waits_for_missing_tensors_for_a_short_time() {
    let (mut runner, mut global) = running(2);
    let start = Instant::now();
    let later = start + Duration::from_millis(1);
    assert_eq!(runner.due(false, false, || start), None, "nothing waits");
    assert!(submit_named(&mut runner, &mut global, "b"));
    assert!(runner.lacks_tensors(true) && !runner.lacks_tensors(false));
    let unhurried = runner.due(true, false, || start).unwrap();
    assert!(unhurried > start + BLOCKED);
    assert_eq!(runner.due(true, true, || start), Some(start + BLOCKED));
    assert_eq!(runner.due(true, true, || later), Some(start + BLOCKED));
    assert_eq!(runner.due(true, false, || later), Some(unhurried));
    assert_eq!(runner.due(true, true, || later), Some(later + BLOCKED));
}

#[test]
fn operations_completed_by_callback_wait_until_no_more_come() {
    let (mut runner, mut global) = running(2);
    let entry = entry_with(GLOBAL, "b", 1.0, Completer::continuing(Box::new(|_| {})));
    let submissions = Submissions {
        entries: vec![entry],
        ..Submissions::default()
    };
    let now = Instant::now();
    assert!(runner.enter(submissions, &mut global, now));
    assert_eq!(runner.due(true, false, || now), Some(now + QUIET));
    assert!(submit_named(&mut runner, &mut global, "a"));
    assert!(
        runner.due(true, false, || now) > Some(now + QUIET),
        "complete"
    );
}

#[test]
fn the_queue_learns_how_many_submissions_are_wanted() {
    let mut runner = ScheduleRunner::new(ME, 2);
    assert_eq!(runner.wanted(), 1, "without a schedule");
    let (_, mut global) = running(2);
    let both = [0, 1].map(|id| TensorRef::Cached(CacheId(id)));
    let schedule = Schedule {
        number: NUMBER,
        operations: vec![operation(both.to_vec())],
    };
    assert!(runner.begin(schedule, &global, false).unwrap());
    assert_eq!(runner.wanted(), 2);
    assert!(submit_named(&mut runner, &mut global, "a"));
    assert_eq!(runner.wanted(), 1);
}
