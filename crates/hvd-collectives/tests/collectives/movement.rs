//! The rows of the table that only move bytes: allgather, broadcast, alltoall and barrier.

use std::sync::atomic::{AtomicUsize, Ordering};

use hvd_collectives::{
    Communicator, Parts, PartsMut, allgather_in_place, chain_broadcast, exchange_counts,
    tree_broadcast,
};

use crate::harness::{LENGTHS, MakeMesh, TUNING, on_every_size};
use crate::values::Numbers;

/// Bytes of each part in each case: all equal, anything down to nothing, only one part.
pub(crate) fn divisions(parts: usize) -> Vec<Vec<usize>> {
    let mut cases = Vec::new();
    for length in LENGTHS {
        let mut numbers = Numbers::new(&[parts, length]);
        cases.push(vec![length; parts]);
        cases.push(
            (0..parts)
                .map(|_| numbers.below(3) * numbers.below(length + 1))
                .collect(),
        );
        let mut single = vec![0; parts];
        single[numbers.below(parts)] = length;
        cases.push(single);
    }
    cases
}

pub(crate) fn part_of(owner: usize, case: usize, length: usize) -> Vec<u8> {
    Numbers::new(&[owner, case]).bytes(length)
}

pub(crate) fn allgather(mesh: MakeMesh) {
    on_every_size(mesh, |comm, _| {
        let mut results = Vec::new();
        for (case, counts) in divisions(comm.size()).into_iter().enumerate() {
            let parts: Vec<Vec<u8>> = counts
                .iter()
                .enumerate()
                .map(|(owner, &length)| part_of(owner, case, length))
                .collect();
            let own = &parts[comm.index()];
            let expected = parts.concat();

            let mut output = vec![0xee; expected.len()];
            let target = PartsMut {
                bytes: &mut output,
                counts: &counts,
            };
            hvd_collectives::allgather(comm, own, target, &TUNING).unwrap();
            assert!(output == expected, "{counts:?} at {}", comm.index());

            let start: usize = counts[..comm.index()].iter().sum();
            let mut output = vec![0xee; expected.len()];
            output[start..start + own.len()].copy_from_slice(own);
            let target = PartsMut {
                bytes: &mut output,
                counts: &counts,
            };
            allgather_in_place(comm, target, &TUNING).unwrap();
            assert!(
                output == expected,
                "{counts:?} in place at {}",
                comm.index()
            );
            results.extend(output);
        }
        results
    });
}

pub(crate) fn broadcast(mesh: MakeMesh) {
    on_every_size(mesh, |comm, _| {
        for root in 0..comm.size() {
            for length in LENGTHS {
                check_broadcast(comm, root, length, |comm, buffer| {
                    tree_broadcast(comm, root, buffer)
                });
                check_broadcast(comm, root, length, |comm, buffer| {
                    chain_broadcast(comm, root, buffer, &TUNING)
                });
                check_broadcast(comm, root, length, |comm, buffer| {
                    hvd_collectives::broadcast(comm, root, buffer, &TUNING)
                });
            }
        }
        Vec::new()
    });
}

fn check_broadcast(
    comm: &mut Communicator<'_>,
    root: usize,
    length: usize,
    algorithm: impl Fn(&mut Communicator<'_>, &mut [u8]) -> hvd_collectives::Result<()>,
) {
    let mut buffer = part_of(comm.index(), length, length);
    algorithm(comm, &mut buffer).unwrap();
    assert!(
        buffer == part_of(root, length, length),
        "{length} from {root} at {}",
        comm.index()
    );
}

pub(crate) fn alltoall(mesh: MakeMesh) {
    on_every_size(mesh, |comm, _| {
        let members = comm.size();
        for (case, lengths) in divisions(members * members).into_iter().enumerate() {
            let length = |from: usize, to: usize| lengths[from * members + to];
            let part =
                |from: usize, to: usize| part_of(from * members + to, case, length(from, to));
            let own = comm.index();

            let to_send: Vec<usize> = (0..members).map(|to| length(own, to)).collect();
            let sent: Vec<u64> = to_send.iter().map(|&length| length as u64).collect();
            let mut received = vec![0; members];
            exchange_counts(comm, &sent, &mut received).unwrap();
            let to_receive: Vec<usize> = received
                .iter()
                .map(|&length| usize::try_from(length).unwrap())
                .collect();
            assert!(
                to_receive
                    .iter()
                    .copied()
                    .eq((0..members).map(|from| length(from, own)))
            );

            let mut input: Vec<u8> = (0..members).flat_map(|to| part(own, to)).collect();
            input.extend(b"a tail that is not sent");
            let mut output = vec![0xee; to_receive.iter().sum()];
            let source = Parts {
                bytes: &input,
                counts: &to_send,
            };
            let target = PartsMut {
                bytes: &mut output,
                counts: &to_receive,
            };
            hvd_collectives::alltoall(comm, source, target).unwrap();
            let expected: Vec<u8> = (0..members).flat_map(|from| part(from, own)).collect();
            assert!(output == expected, "case {case} at {own} of {members}");
        }
        Vec::new()
    });
}

pub(crate) fn barrier(mesh: MakeMesh) {
    const ROUNDS: usize = 50;
    // One counter per group size, because groups of different sizes run one after the other.
    static ENTERED: [AtomicUsize; 9] = [const { AtomicUsize::new(0) }; 9];
    for counter in &ENTERED {
        counter.store(0, Ordering::SeqCst);
    }
    on_every_size(mesh, |comm, _| {
        let counter = &ENTERED[comm.size()];
        for round in 1..=ROUNDS {
            counter.fetch_add(1, Ordering::SeqCst);
            hvd_collectives::barrier(comm).unwrap();
            let entered = counter.load(Ordering::SeqCst);
            assert!(
                entered >= round * comm.size(),
                "left round {round} with {entered} entered"
            );
        }
        Vec::new()
    });
}
