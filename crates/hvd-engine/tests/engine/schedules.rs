//! Steps that are always the same, and everything that can come between: whatever the ranks do, in
//! whatever order, every result is right and no rank waits for ever.

use std::num::NonZeroUsize;
use std::time::Duration;

use hvd_engine::{Counts, EngineOptions, Handle, SetChange, Submission};
use hvd_transport::testing::{Wire, mesh_of};
use hvd_types::{OpKind, ProcessSetId, Rank};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::jobs::{Job, floats, pause, run, run_meshes, run_with_failure, tensor};
use crate::late_lanes::{Delay, with_late_lanes};

/// Elements of the tensors by their number: some travel with the notices, some in operations of
/// their own, some fused.
const LENGTHS: [usize; 6] = [1, 3, 700, 1500, 40_000, 1_200_000];

fn named(name: String, values: &[f32]) -> Submission {
    Submission {
        name: Some(name.into()),
        ..tensor(OpKind::Allreduce, values)
    }
}

fn steady_steps_need_no_negotiation(wire: Wire) {
    let counts = run(wire, 3, |job| {
        let step = |round: u16| {
            let names = ["a", "b", "c"];
            let handles: Vec<Handle> = names
                .iter()
                .zip([2, 5000, 1])
                .map(|(name, length)| {
                    let values = vec![job.rank_number() + f32::from(round); length];
                    job.start(named((*name).to_owned(), &values)).unwrap()
                })
                .collect();
            for (handle, length) in handles.into_iter().zip([2, 5000, 1]) {
                let sum = floats(&job.finish(handle).unwrap());
                assert_eq!(sum, vec![3.0 + 3.0 * f32::from(round); length]);
            }
        };
        (0..6).for_each(step);
        let before = job.engine.counts();
        (6..30).for_each(step);
        let after = job.engine.counts();
        // No rank can be further than the next step, whose end may bring other messages.
        (30..32).for_each(step);
        (before, after)
    });
    for (before, after) in counts {
        let sent = |counts: Counts| counts.negotiation_messages;
        assert_eq!(sent(after), sent(before), "{before:?} {after:?}");
        assert_eq!(after.schedules, 1);
        assert!(after.scheduled_operations >= before.scheduled_operations + 20);
    }
}

fn a_schedule_of_one_blocking_call(wire: Wire) {
    let counts = run(wire, 2, |job| {
        for round in 0_u16..40 {
            let values = [job.rank_number() + f32::from(round)];
            let sum = job.call(named("x".to_owned(), &values)).unwrap();
            assert_eq!(floats(&sum), [1.0 + 2.0 * f32::from(round)]);
        }
        job.engine.counts()
    });
    for counts in counts {
        assert!(counts.scheduled_operations >= 30, "{counts:?}");
    }
}

fn a_rank_that_stays_away_ends_the_schedule_and_delays_nobody_for_ever(wire: Wire) {
    run(wire, 2, |job| {
        for round in 0..12 {
            if round == 8 && job.rank == Rank::new(1) {
                pause(Duration::from_millis(1500));
            }
            let sum = job.call(named("x".to_owned(), &[1.0])).unwrap();
            assert_eq!(floats(&sum), [2.0]);
        }
    });
}

fn a_death_in_the_middle_of_a_schedule_is_named(wire: Wire) {
    for rounds in [5, 11, 12, 40] {
        let errors = run_with_failure(wire, 3, Rank::new(2), move |job, fail| {
            let call = |round| {
                if round == rounds && job.rank == Rank::new(2) {
                    fail();
                }
                job.call(named("x".to_owned(), &[1.0])).err()
            };
            (0..rounds + 1000).find_map(call)
        });
        for error in errors {
            let text = error.expect("the job cannot go on").to_string();
            assert!(text.contains("rank 2"), "{text}");
        }
    }
}

over_every_wire!(
    steady_steps_need_no_negotiation,
    a_schedule_of_one_blocking_call,
    a_rank_that_stays_away_ends_the_schedule_and_delays_nobody_for_ever,
    a_death_in_the_middle_of_a_schedule_is_named,
);

/// `SCHEDULE-4`: rank 1 has all notices at once, and must not begin before rank 2 has its notice.
#[test]
fn nobody_begins_before_its_notes_have_left() {
    let delay: Delay = |from, to| {
        let is_late = (from, to) == (Rank::new(1), Rank::new(2));
        Duration::from_millis(if is_late { 200 } else { 0 })
    };
    let meshes = with_late_lanes(mesh_of(Wire::Memory, 3), delay);
    let counts = run_meshes(meshes, &EngineOptions::default(), |job| {
        for _ in 0..8 {
            let sum = job.call(named("x".to_owned(), &[1.0; 3000])).unwrap();
            assert_eq!(floats(&sum), [3.0; 3000]);
        }
        job.engine.counts()
    });
    assert!(counts.iter().all(|counts| counts.scheduled_operations > 0));
}

/// Something that all ranks do.
#[derive(Debug, Clone)]
enum Act {
    /// The same tensors for some steps, each rank in an order of its own.
    Steps {
        tensors: Vec<usize>,
        times: usize,
    },
    /// Blocking calls, in one order.
    Calls {
        tensors: Vec<usize>,
        times: usize,
    },
    /// A tensor that comes once.
    Extra,
    /// A tensor has another length from now on.
    Resize(usize),
    /// Some ranks give a tensor another length than the others.
    Mismatch(usize),
    /// One rank waits for the first of two tensors while the other has begun with the second.
    Crossed(usize, usize),
    Barrier,
    /// The ranks 0 and 1 do something among themselves.
    Pair,
    /// Ranks have different numbers of steps and join when they have no more.
    Join {
        steps: [usize; 3],
    },
    /// A rank comes late.
    Late(usize),
}

fn tensors() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::subsequence((0..LENGTHS.len() - 1).collect::<Vec<_>>(), 1..5)
}

fn act() -> impl Strategy<Value = Act> {
    let one = 0..LENGTHS.len() - 1;
    prop_oneof![
        6 => (tensors(), 1_usize..8).prop_map(|(tensors, times)| Act::Steps { tensors, times }),
        3 => (tensors(), 1_usize..8).prop_map(|(tensors, times)| Act::Calls { tensors, times }),
        1 => Just(Act::Extra),
        1 => one.clone().prop_map(Act::Resize),
        1 => one.clone().prop_map(Act::Mismatch),
        2 => (0_usize..3, 3_usize..5).prop_map(|(a, b)| Act::Crossed(a, b)),
        1 => Just(Act::Barrier),
        1 => Just(Act::Pair),
        1 => prop::array::uniform3(0_usize..4).prop_map(|steps| Act::Join { steps }),
        1 => (0_usize..3).prop_map(Act::Late),
    ]
}

/// One rank on its way through a script.
struct Player<'a> {
    job: &'a Job,
    lengths: [usize; LENGTHS.len()],
    pair: ProcessSetId,
    random: u64,
    extras: u32,
    /// Differs from step to step, alike on all ranks.
    step: u16,
    /// All ranks, as numbers to compute with.
    all: Vec<f32>,
}

impl Player<'_> {
    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % 1_000_003).unwrap() % below
    }

    fn value(&self, rank: f32) -> f32 {
        rank + f32::from(self.step % 100)
    }

    fn submission(&self, id: usize) -> Submission {
        let values = vec![self.value(self.job.rank_number()); self.lengths[id]];
        named(format!("t{id}"), &values)
    }

    fn check(&self, id: usize, handle: Handle, ranks: &[f32]) {
        let sum = floats(&self.job.finish(handle).unwrap());
        let expected: f32 = ranks.iter().map(|&rank| self.value(rank)).sum();
        assert_eq!(sum, vec![expected; self.lengths[id]], "t{id}");
    }

    /// Begins with tensors in an order of its own and waits for them in another.
    fn step(&mut self, ids: &[usize], ranks: &[f32]) {
        self.step += 1;
        let mut open = ids.to_vec();
        let mut begun = Vec::new();
        while !open.is_empty() {
            let id = open.swap_remove(self.random(open.len()));
            begun.push((id, self.job.start(self.submission(id)).unwrap()));
        }
        while !begun.is_empty() {
            let (id, handle) = begun.swap_remove(self.random(begun.len()));
            self.check(id, handle, ranks);
        }
    }

    fn play(&mut self, act: &Act) {
        let all = self.all.clone();
        match act {
            Act::Steps { tensors, times } => {
                (0..*times).for_each(|_| self.step(tensors, &all));
            }
            Act::Calls { tensors, times } => {
                for _ in 0..*times {
                    self.step += 1;
                    for &id in tensors {
                        let handle = self.job.engine.submit_quietly(self.submission(id));
                        self.check(id, handle.unwrap(), &all);
                    }
                }
            }
            Act::Extra => {
                self.extras += 1;
                let name = format!("extra{}", self.extras);
                let sum = self.job.call(named(name, &[1.0])).unwrap();
                assert_eq!(floats(&sum), [all.iter().map(|_| 1.0).sum::<f32>()]);
            }
            Act::Resize(id) => self.lengths[*id] += 1,
            Act::Mismatch(id) => {
                self.lengths[*id] += self.job.rank.index();
                let error = self.job.call(self.submission(*id)).unwrap_err().to_string();
                assert!(error.contains("do not agree"), "{error}");
                self.lengths[*id] -= self.job.rank.index();
            }
            Act::Crossed(first, second) => self.cross(*first, *second, &all),
            Act::Barrier => {
                let barrier = Submission::barrier(ProcessSetId::GLOBAL);
                self.job.call(barrier).unwrap();
            }
            Act::Pair => self.pair(),
            Act::Join { steps } => self.join(*steps),
            Act::Late(rank) => {
                if self.job.rank.index() % 3 == *rank {
                    pause(Duration::from_millis(3));
                }
            }
        }
    }

    fn cross(&mut self, first: usize, second: usize, all: &[f32]) {
        self.step += 1;
        if self.job.rank == Rank::new(0) {
            let begun = self.job.start(self.submission(second)).unwrap();
            let handle = self.job.start(self.submission(first)).unwrap();
            self.check(first, handle, all);
            self.check(second, begun, all);
        } else {
            for id in [first, second] {
                let handle = self.job.engine.submit_quietly(self.submission(id));
                self.check(id, handle.unwrap(), all);
            }
        }
    }

    fn pair(&mut self) {
        if self.job.rank.index() > 1 {
            return;
        }
        let submission = Submission {
            process_set: self.pair,
            ..named("t0".to_owned(), &[1.0])
        };
        assert_eq!(floats(&self.job.call(submission).unwrap()), [2.0]);
    }

    fn join(&mut self, steps: [usize; 3]) {
        let before = self.step;
        for round in 0..steps[self.job.rank.index() % 3] {
            let all = self.all.iter().zip(steps.iter().cycle());
            let ranks: Vec<f32> = all
                .filter_map(|(&rank, &steps)| (steps > round).then_some(rank))
                .collect();
            self.step(&[0, 3], &ranks);
        }
        self.job.call(Submission::join()).unwrap();
        self.step = before + 4;
    }
}

fn play(jobs: Jobs, script: Vec<Act>, seed: u64) {
    let options = EngineOptions {
        fan_out: NonZeroUsize::new(jobs.fan_out),
        ..EngineOptions::default()
    };
    let meshes = mesh_of(jobs.wire, jobs.size);
    let meshes = match jobs.delay {
        Some(delay) => with_late_lanes(meshes, delay),
        None => meshes,
    };
    run_meshes(meshes, &options, move |job| {
        let pair = vec![Rank::new(0), Rank::new(1)];
        let mut player = Player {
            job,
            lengths: LENGTHS,
            pair: job.change(SetChange::Add(pair)).unwrap(),
            random: seed.wrapping_add(u64::from(job.rank.number()) * 977) | 1,
            extras: 0,
            step: 0,
            all: (0_u16..).map(f32::from).take(jobs.size).collect(),
        };
        for act in &script {
            player.play(act);
        }
    });
}

/// Where scripts are played.
#[derive(Debug, Clone, Copy)]
struct Jobs {
    wire: Wire,
    size: usize,
    /// Of the tree by way of which ranks negotiate; 0 if they speak to rank 0 themselves.
    fan_out: usize,
    delay: Option<Delay>,
}

impl Jobs {
    fn over(wire: Wire) -> Self {
        Self {
            wire,
            size: 3,
            fan_out: 0,
            delay: None,
        }
    }
}

fn play_scripts(jobs: Jobs, cases: u32) {
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let scripts = (prop::collection::vec(act(), 1..14), any::<u64>());
    runner
        .run(&scripts, |(script, seed)| {
            play(jobs, script, seed);
            Ok(())
        })
        .unwrap();
}

#[test]
fn whatever_comes_between_is_right_in_memory() {
    play_scripts(Jobs::over(Wire::Memory), 40);
}

#[test]
fn whatever_comes_between_is_right_over_shared_memory() {
    play_scripts(Jobs::over(Wire::SharedMemory), 60);
}

#[test]
fn whatever_comes_between_is_right_over_tcp() {
    play_scripts(Jobs::over(Wire::Tcp), 30);
    play_scripts(Jobs::over(Wire::Encrypted), 20);
}

#[test]
fn whatever_comes_between_is_right_by_way_of_one_relay() {
    let (size, fan_out) = (3, 1);
    for wire in [Wire::SharedMemory, Wire::Tcp] {
        let jobs = Jobs {
            size,
            fan_out,
            ..Jobs::over(wire)
        };
        play_scripts(jobs, 20);
    }
}

#[test]
fn whatever_comes_between_is_right_by_way_of_many_relays() {
    for (size, fan_out) in [(7, 2), (10, 1)] {
        let jobs = Jobs {
            size,
            fan_out,
            ..Jobs::over(Wire::Memory)
        };
        play_scripts(jobs, 15);
    }
}

#[test]
fn whatever_comes_between_is_right_while_lanes_are_connected() {
    let delay: Delay = |from, to| {
        let milliseconds = 3 * (u64::from(from.number()) * 5 + u64::from(to.number()) * 3) % 11;
        Duration::from_millis(milliseconds)
    };
    for (size, fan_out) in [(3, 0), (5, 2), (10, 0)] {
        let jobs = Jobs {
            size,
            fan_out,
            delay: Some(delay),
            ..Jobs::over(Wire::Memory)
        };
        play_scripts(jobs, 15);
    }
}
