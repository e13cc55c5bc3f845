//! Allreduce where it is done in shared memory: several tensors without a fusion buffer, scaling on
//! the way, groups that overlap, and ranks that die or do not move.

use std::time::{Duration, Instant};

use hvd_collectives::{
    Combine, Communicator, Error, Reduction, Result, Tensor, TensorMemory, Workspace, kernel,
    ring_allreduce, shared_allreduce,
};
use hvd_testkit::run_ranks_with;
use hvd_transport::testing::{Setup, Wire};
use hvd_transport::{Failure, Mesh};
use hvd_types::{DType, Rank};
use proptest::prelude::*;

use crate::harness::{TUNING, memory};
use crate::values::{Numbers, input, is_float, wild_input};

const SUM: Combine = Combine {
    dtype: DType::Float32,
    reduction: Reduction::Sum,
};

fn all_ranks(size: usize) -> Vec<Rank> {
    (0..size).map(Rank::from_index).collect()
}

fn in_place(buffer: &mut [u8]) -> [Tensor<'_>; 1] {
    let memory = TensorMemory::InPlace(buffer);
    [Tensor {
        memory,
        factor: 1.0,
    }]
}

/// One rank's tensors, and what to do with them.
#[derive(Debug, Clone)]
struct Case {
    combine: Combine,
    /// Elements of each tensor, and whether its result replaces it.
    tensors: Vec<(usize, bool)>,
    before: f64,
    after: f64,
    /// Bytes of a slot.
    slot: usize,
    chunk_bytes: usize,
    small_bytes: usize,
}

impl Case {
    fn workspace(&self) -> Workspace {
        let mut tuning = TUNING;
        tuning.chunk_bytes = self.chunk_bytes;
        tuning.small_allreduce_bytes = self.small_bytes;
        Workspace::new(tuning)
    }

    fn inputs(&self, rank: usize) -> Vec<Vec<u8>> {
        let Combine { dtype, reduction } = self.combine;
        let tensors = self.tensors.iter().enumerate();
        tensors
            .map(|(number, &(elements, _))| input(dtype, reduction, &[rank, number], elements))
            .collect()
    }

    /// Every tensor's result by way of the shared memory.
    fn shared(&self, comm: &mut Communicator<'_>, workspace: &mut Workspace) -> Vec<Vec<u8>> {
        let mut inputs = self.inputs(comm.index());
        let mut outputs: Vec<Vec<u8>> =
            inputs.iter().map(|input| vec![0xee; input.len()]).collect();
        let places = inputs.iter_mut().zip(&mut outputs).zip(&self.tensors);
        let mut tensors: Vec<Tensor<'_>> = places
            .map(|((input, output), &(_, replaces))| Tensor {
                memory: if replaces {
                    TensorMemory::InPlace(input)
                } else {
                    TensorMemory::Apart { input, output }
                },
                factor: self.before,
            })
            .collect();
        let done = shared_allreduce(comm, self.combine, self.after, &mut tensors, workspace);
        assert!(done.unwrap(), "these ranks see the same memory");
        let results = inputs.into_iter().zip(outputs).zip(&self.tensors);
        results
            .map(|((input, output), &(_, replaces))| if replaces { input } else { output })
            .collect()
    }

    /// The same by way of a ring and separate scaling.
    fn ring(&self, comm: &mut Communicator<'_>, workspace: &mut Workspace) -> Vec<Vec<u8>> {
        let mut inputs = self.inputs(comm.index());
        for buffer in &mut inputs {
            kernel::scale(self.combine.dtype, self.before, buffer).unwrap();
            ring_allreduce(comm, self.combine, buffer, workspace).unwrap();
            kernel::scale(self.combine.dtype, self.after, buffer).unwrap();
        }
        inputs
    }
}

/// Runs `cases` one after the other on `size` ranks, of which only `members` take part.
fn compare(size: usize, members: &[Rank], cases: &[Case]) {
    let (members, own) = (members.to_vec(), cases.to_vec());
    let mesh = Setup::new(Wire::SharedMemory, size)
        .tight(own[0].slot)
        .build();
    let results = run_ranks_with(mesh, move |rank, mut end: Mesh| {
        let mut results = Vec::new();
        if members.contains(&rank) {
            let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
            for case in &own {
                let mut workspace = case.workspace();
                let expected = case.ring(&mut comm, &mut workspace);
                let result = case.shared(&mut comm, &mut workspace);
                assert_eq!(result, expected, "{case:?} at {rank}");
                results.push(result);
            }
        }
        (results, end)
    });
    assert!(results.len() == size);
}

fn case() -> impl Strategy<Value = Case> {
    let combine =
        (0..DType::ALL.len(), 0..Reduction::ALL.len()).prop_map(|(dtype, reduction)| Combine {
            dtype: DType::ALL[dtype],
            reduction: Reduction::ALL[reduction],
        });
    let tensors = prop::collection::vec((0..700_usize, any::<bool>()), 1..6);
    let factors = prop::sample::select(vec![(1.0, 1.0), (0.5, 1.0), (1.0, 0.25), (2.0, 0.5)]);
    let sizes = prop::sample::select(vec![(205, 104), (100_000, 0), (512, 100_000), (64, 0)]);
    (combine, tensors, factors, sizes).prop_map(|(combine, tensors, factors, sizes)| {
        // Halves of integers are cut off, which the order of operations shows; bool has no factor.
        let exact = is_float(combine.dtype) && combine.reduction != Reduction::Product;
        let (before, after) = if exact { factors } else { (1.0, 1.0) };
        Case {
            combine,
            tensors,
            before,
            after,
            slot: 0,
            chunk_bytes: sizes.0,
            small_bytes: sizes.1,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn comes_to_what_the_ring_comes_to(
        size in 2..6_usize,
        left_out in 0..6_usize,
        slot in prop::sample::select(vec![128_usize, 1024, 65536]),
        cases in prop::collection::vec(case(), 1..5),
    ) {
        let cases: Vec<Case> = cases.into_iter().map(|case| Case { slot, ..case }).collect();
        let mut members = all_ranks(size);
        // Sometimes not all, and never in order.
        if size > 2 && left_out < size {
            members.remove(left_out);
        }
        members.rotate_left(1);
        compare(size, &members, &cases);
    }
}

#[test]
fn results_do_not_depend_on_what_travels_together() {
    let mesh = Setup::new(Wire::SharedMemory, 3).tight(256).build();
    let results = run_ranks_with(mesh, |rank, mut end: Mesh| {
        let members = all_ranks(3);
        let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
        let mut workspace = Workspace::new(TUNING);
        let mut together = wild_input(DType::Float32, &[rank.index()], 999);
        let mut apart = together.clone();
        shared_allreduce(
            &mut comm,
            SUM,
            1.0,
            &mut in_place(&mut together),
            &mut workspace,
        )
        .unwrap();
        for part in apart.chunks_mut(4 * 37) {
            shared_allreduce(&mut comm, SUM, 1.0, &mut in_place(part), &mut workspace).unwrap();
        }
        (together == apart, together, end)
    });
    assert!(results.iter().all(|(same, ..)| *same));
    assert!(results.iter().all(|(_, bits, _)| *bits == results[0].1));
}

/// Groups that share ranks take turns with the same slots, some of them while others still read.
#[test]
fn overlapping_groups_do_not_disturb_each_other() {
    const GROUPS: [&[u32]; 5] = [&[0, 1, 2, 3], &[1, 0], &[2, 3], &[3, 1], &[0, 2, 3]];
    let mesh = Setup::new(Wire::SharedMemory, 4).tight(128).build();
    let ends = run_ranks_with(mesh, |rank, mut end: Mesh| {
        let (mut numbers, mut workspace) = (Numbers::new(&[77]), Workspace::new(TUNING));
        for turn in 0..400 {
            let members: Vec<Rank> = GROUPS[numbers.below(GROUPS.len())]
                .iter()
                .map(|&member| Rank::new(member))
                .collect();
            let elements = [1, 5, 40, 300][numbers.below(4)];
            if !members.contains(&rank) {
                continue;
            }
            let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
            let value = |rank: Rank| i32::try_from(turn * 10 + rank.index()).unwrap();
            let mut buffer: Vec<u8> = value(rank).to_ne_bytes().repeat(elements);
            let combine = Combine {
                dtype: DType::Int32,
                reduction: Reduction::Sum,
            };
            hvd_collectives::allreduce(&mut comm, combine, &mut buffer, &mut workspace).unwrap();
            let sum: i32 = members.iter().map(|&member| value(member)).sum();
            assert!(
                buffer == sum.to_ne_bytes().repeat(elements),
                "turn {turn} of {members:?} at {rank}"
            );
        }
        end
    });
    assert_eq!(ends.len(), 4);
}

#[test]
fn other_transports_decline() {
    let declined = run_ranks_with(memory(2), |_, mut end: Mesh| {
        let members = all_ranks(2);
        let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
        let mut workspace = Workspace::new(TUNING);
        let mut buffer = [0; 8];
        let mut tensors = in_place(&mut buffer);
        shared_allreduce(&mut comm, SUM, 1.0, &mut tensors, &mut workspace).unwrap()
    });
    assert_eq!(declined, [false, false]);
}

#[test]
fn senseless_calls_fail_before_anything_is_shown() {
    let mesh = Setup::new(Wire::SharedMemory, 2).build();
    let ends = run_ranks_with(mesh, |_, mut end: Mesh| {
        let members = all_ranks(2);
        let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
        let mut workspace = Workspace::new(TUNING);
        let mut call = |combine, factor, memory: TensorMemory<'_>| -> Result<bool> {
            let mut tensors = [Tensor { memory, factor }];
            shared_allreduce(&mut comm, combine, 1.0, &mut tensors, &mut workspace)
        };
        let odd = call(SUM, 1.0, TensorMemory::InPlace(&mut [0; 7]));
        assert!(matches!(odd, Err(Error::PartialElement { .. })));
        let (input, output): (&[u8], _) = (&[0; 8], &mut [0; 4]);
        let short = call(SUM, 1.0, TensorMemory::Apart { input, output });
        assert!(matches!(short, Err(Error::LengthMismatch { .. })));
        let dtype = DType::Bool;
        let scaled = call(
            Combine { dtype, ..SUM },
            0.5,
            TensorMemory::InPlace(&mut [1; 4]),
        );
        assert!(matches!(scaled, Err(Error::CannotScale { .. })));
        // Both are still in step.
        assert!(call(SUM, 1.0, TensorMemory::InPlace(&mut [0; 8])).unwrap());
        end
    });
    assert_eq!(ends.len(), 2);
}

/// The others are in the middle of an operation when one rank stops taking part.
fn interrupted(wire: Wire, timeout: Duration, raise: bool) -> Vec<Option<(String, Duration)>> {
    let mesh = Setup::new(wire, 4).progress_timeout(timeout).build();
    let aborts: Vec<_> = mesh.iter().map(|end| end.abort.clone()).collect();
    let results = run_ranks_with(mesh, move |rank, mut end: Mesh| {
        let members = [0, 1].map(Rank::new);
        if rank == Rank::new(1) && raise {
            let reason = "is gone".to_owned();
            let host = "h".to_owned();
            aborts[0].raise(Failure { rank, host, reason });
        }
        if rank != Rank::new(0) {
            return (None, end);
        }
        let start = Instant::now();
        let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
        let (mut buffer, mut workspace) = (vec![0; 4 << 20], Workspace::default());
        let mut tensors = in_place(&mut buffer);
        let failed = shared_allreduce(&mut comm, SUM, 1.0, &mut tensors, &mut workspace);
        (
            Some((failed.unwrap_err().to_string(), start.elapsed())),
            end,
        )
    });
    results.into_iter().map(|(result, _)| result).collect()
}

#[test]
fn a_death_ends_the_wait() {
    for wire in [Wire::SharedMemory, Wire::Mixed] {
        let results = interrupted(wire, Duration::from_secs(30), true);
        let (error, after) = results[0].as_ref().unwrap();
        assert_eq!(error, "rank 1 on host `h` is gone", "{wire:?}");
        assert!(*after < Duration::from_secs(10), "{wire:?} after {after:?}");
    }
}

#[test]
fn a_rank_that_does_not_move_is_named() {
    for wire in [Wire::SharedMemory, Wire::Mixed] {
        let results = interrupted(wire, Duration::from_millis(200), false);
        let (error, after) = results[0].as_ref().unwrap();
        assert!(error.starts_with("rank 1 on host "), "{wire:?}: {error}");
        assert!(error.contains("made no progress"), "{wire:?}: {error}");
        assert!(*after < Duration::from_secs(10), "{wire:?} after {after:?}");
    }
}
