//! Allreduce out of the members' own memory: the bits of the one through slots, all members agree
//! where it cannot be, and ranks that die or do not move. Ranks are threads, whose process may
//! always read its own memory.

use std::time::{Duration, Instant};

use hvd_collectives::{
    Combine, Communicator, Error, Reduction, Tensor, TensorMemory, Workspace, direct_allreduce,
    shared_allreduce,
};
use hvd_testkit::run_ranks_with;
use hvd_transport::testing::{Setup, Wire};
use hvd_transport::{Failure, Mesh};
use hvd_types::{DType, Rank};

use crate::harness::{TUNING, memory};
use crate::values::{input, is_float, wild_input};

const SUM: Combine = Combine {
    dtype: DType::Float32,
    reduction: Reduction::Sum,
};

/// Nothing, less than a share, several blocks of a share, and several chunks with an odd end.
const ELEMENTS: [usize; 6] = [0, 1, 31, 257, 4097, 10_007];

fn everybody(size: usize) -> Vec<Rank> {
    (0..size).map(Rank::from_index).collect()
}

/// One rank's part of a reduction.
#[derive(Debug, Clone)]
struct Case {
    combine: Combine,
    values: Vec<u8>,
    in_place: bool,
    before: f64,
    after: f64,
}

impl Case {
    /// The result, by way of the members' memory or of the slots.
    fn run(&self, direct: bool, comm: &mut Communicator<'_>, workspace: &mut Workspace) -> Vec<u8> {
        let (mut values, mut result) = (self.values.clone(), vec![0xee; self.values.len()]);
        let memory = if self.in_place {
            TensorMemory::InPlace(&mut values)
        } else {
            TensorMemory::Apart {
                input: &values,
                output: &mut result,
            }
        };
        let mut tensors = [Tensor {
            memory,
            factor: self.before,
        }];
        let done = if direct {
            let [tensor] = &mut tensors;
            direct_allreduce(comm, self.combine, self.after, tensor, workspace)
        } else {
            shared_allreduce(comm, self.combine, self.after, &mut tensors, workspace)
        };
        assert!(done.unwrap(), "these ranks see each other's memory");
        if self.in_place {
            return values;
        }
        assert!(values == self.values, "the values stay as they are");
        result
    }
}

/// What a rank does, one after the other. Members differ in whether they reduce in place, and in
/// their factors, as those that have joined do.
fn cases(rank: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, &dtype) in DType::ALL.iter().enumerate() {
        let reduction = Reduction::ALL[number % 4];
        for (place, (before, after)) in [(1.0, 1.0), (0.5, 1.0), (1.0, 0.3), (1.7, 0.5)]
            .into_iter()
            .enumerate()
        {
            for elements in ELEMENTS {
                let seed = [rank, number, elements];
                let values = if is_float(dtype) {
                    wild_input(dtype, &seed, elements)
                } else {
                    input(dtype, reduction, &seed, elements)
                };
                let scales = dtype != DType::Bool;
                let joined = rank == 1 && place == 3;
                cases.push(Case {
                    combine: Combine { dtype, reduction },
                    values,
                    in_place: [true, false, rank == 0, rank != 0][place],
                    before: if scales && !joined { before } else { 1.0 },
                    after: if scales { after } else { 1.0 },
                });
            }
        }
    }
    cases
}

#[test]
fn direct_2_gives_the_bits_of_the_way_through_slots() {
    for (wire, ranks) in [
        (Wire::SharedMemory, 2),
        (Wire::SharedMemory, 3),
        (Wire::SharedMemory, 4),
        (Wire::Mixed, 4),
    ] {
        let results = run_ranks_with(
            Setup::new(wire, ranks).build(),
            move |rank, mut end: Mesh| {
                // The ranks of one host, not in order.
                let mut members = everybody(ranks);
                if wire == Wire::Mixed {
                    members.retain(|member| member.index() / 2 == rank.index() / 2);
                }
                members.rotate_left(1);
                let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
                let mut workspace = Workspace::new(TUNING);
                for case in cases(rank.index()) {
                    let expected = case.run(false, &mut comm, &mut workspace);
                    let result = case.run(true, &mut comm, &mut workspace);
                    let length = case.values.len();
                    assert!(
                        result == expected,
                        "{:?}, {length} bytes at {rank}",
                        case.combine
                    );
                }
                end
            },
        );
        assert_eq!(results.len(), ranks);
    }
}

/// Again and again in the same memory, without a pause in which a late reader would get away with it.
#[test]
fn direct_1_no_member_overtakes_a_reader() {
    let results = run_ranks_with(
        Setup::new(Wire::SharedMemory, 3).build(),
        |rank, mut end: Mesh| {
            let members = everybody(3);
            let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
            let mut workspace = Workspace::new(TUNING);
            let combine = Combine {
                dtype: DType::Int64,
                ..SUM
            };
            let mut values: Vec<u8> = Vec::new();
            for turn in 0..300_i64 {
                let own = turn * 10 + i64::try_from(rank.index()).unwrap();
                values.clear();
                values.extend(own.to_ne_bytes().repeat(5003));
                let mut tensor = Tensor {
                    memory: TensorMemory::InPlace(&mut values),
                    factor: 1.0,
                };
                let done = direct_allreduce(&mut comm, combine, 1.0, &mut tensor, &mut workspace);
                assert!(done.unwrap());
                let sum = 30 * turn + 3;
                assert!(
                    values == sum.to_ne_bytes().repeat(5003),
                    "turn {turn} at {rank}"
                );
            }
            end
        },
    );
    assert_eq!(results.len(), 3);
}

#[test]
fn where_one_member_is_refused_none_begins() {
    let mesh = Setup::new(Wire::SharedMemory, 3).build();
    let results = run_ranks_with(mesh, |rank, mut end: Mesh| {
        let members = everybody(3);
        let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
        let mut workspace = Workspace::new(TUNING);
        // The card of rank 1 does not fit those of the others.
        let mut values = vec![7; if rank == Rank::new(1) { 4000 } else { 8000 }];
        let mut tensor = Tensor {
            memory: TensorMemory::InPlace(&mut values),
            factor: 1.0,
        };
        let done = direct_allreduce(&mut comm, SUM, 1.0, &mut tensor, &mut workspace).unwrap();
        let untouched = values.iter().all(|&byte| byte == 7);
        // All are still in step.
        values.resize(8000, 7);
        let mut tensor = Tensor {
            memory: TensorMemory::InPlace(&mut values),
            factor: 1.0,
        };
        let then = direct_allreduce(&mut comm, SUM, 1.0, &mut tensor, &mut workspace).unwrap();
        ((done, untouched, then), end)
    });
    let outcomes: Vec<_> = results.into_iter().map(|(outcome, _)| outcome).collect();
    assert_eq!(outcomes, [(false, true, true); 3]);
}

#[test]
fn other_transports_decline() {
    let declined = run_ranks_with(memory(2), |_, mut end: Mesh| {
        let members = everybody(2);
        let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
        let mut tensor = Tensor {
            memory: TensorMemory::InPlace(&mut [0; 8]),
            factor: 1.0,
        };
        direct_allreduce(
            &mut comm,
            SUM,
            1.0,
            &mut tensor,
            &mut Workspace::new(TUNING),
        )
        .unwrap()
    });
    assert_eq!(declined, [false, false]);
}

#[test]
fn senseless_calls_fail_before_anything_is_shown() {
    let ends = run_ranks_with(
        Setup::new(Wire::SharedMemory, 2).build(),
        |_, mut end: Mesh| {
            let members = everybody(2);
            let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
            let mut workspace = Workspace::new(TUNING);
            let mut call = |memory: TensorMemory<'_>| {
                let mut tensor = Tensor {
                    memory,
                    factor: 1.0,
                };
                direct_allreduce(&mut comm, SUM, 1.0, &mut tensor, &mut workspace)
            };
            let odd = call(TensorMemory::InPlace(&mut [0; 7]));
            assert!(matches!(odd, Err(Error::PartialElement { .. })));
            let (input, output): (&[u8], _) = (&[0; 8], &mut [0; 4]);
            let short = call(TensorMemory::Apart { input, output });
            assert!(matches!(short, Err(Error::LengthMismatch { .. })));
            assert!(call(TensorMemory::InPlace(&mut [0; 8])).unwrap());
            end
        },
    );
    assert_eq!(ends.len(), 2);
}

/// Rank 0 is in the middle of an operation when rank 1 stops taking part.
fn interrupted(timeout: Duration, raise: bool) -> (String, Duration) {
    let mesh = Setup::new(Wire::SharedMemory, 2)
        .progress_timeout(timeout)
        .build();
    let abort = mesh[0].abort.clone();
    let mut results = run_ranks_with(mesh, move |rank, mut end: Mesh| {
        if rank == Rank::new(1) {
            let (reason, host) = ("is gone".to_owned(), "h".to_owned());
            if raise {
                abort.raise(Failure { rank, host, reason });
            }
            return (None, end);
        }
        let start = Instant::now();
        let members = everybody(2);
        let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
        let mut values = vec![0; 4 << 20];
        let mut tensor = Tensor {
            memory: TensorMemory::InPlace(&mut values),
            factor: 1.0,
        };
        let failed = direct_allreduce(&mut comm, SUM, 1.0, &mut tensor, &mut Workspace::default());
        let error = failed.unwrap_err().to_string();
        (Some((error, start.elapsed())), end)
    });
    results.remove(0).0.unwrap()
}

#[test]
fn a_death_ends_the_wait() {
    let (error, after) = interrupted(Duration::from_secs(30), true);
    assert_eq!(error, "rank 1 on host `h` is gone");
    assert!(after < Duration::from_secs(10), "after {after:?}");
}

#[test]
fn a_rank_that_does_not_move_is_named() {
    let (error, after) = interrupted(Duration::from_millis(200), false);
    assert!(error.starts_with("rank 1 on host "), "{error}");
    assert!(error.contains("made no progress"), "{error}");
    assert!(after < Duration::from_secs(10), "after {after:?}");
}
