//! The collectives that know of hosts, over several ways to spread ranks, against the same results
//! as the flat ones.

use hvd_collectives::{
    Combine, PartsMut, Reduction, Workspace, hierarchical_allgather, hierarchical_allreduce,
};
use hvd_testkit::run_ranks_with;
use hvd_transport::{Transport, mem};
use hvd_types::{DType, Rank, Topology};

use crate::harness::{MakeMesh, TUNING, on_hosts, topology};
use crate::movement::{divisions, part_of};
use crate::reductions::{cases, expected_alone};
use crate::values::{input, is_float, wild_input};

/// The host of each rank: single, equal, uneven and interleaved ones.
const SPREADS: [&[usize]; 12] = [
    &[0],
    &[0, 0, 0, 0],
    &[0, 0, 1, 1],
    &[0, 1, 2, 3],
    &[0, 0, 0, 0, 1, 1, 1, 1],
    &[0, 0, 1, 1, 2, 2],
    &[0, 0, 0, 1],
    &[0, 0, 1, 2],
    &[0, 1, 0, 1],
    &[2, 0, 1, 0, 2, 1],
    &[0, 1, 0, 0, 0, 0, 1],
    &[0, 1, 1, 0, 2, 0, 0, 1],
];

pub(crate) fn allreduce(mesh: MakeMesh) {
    on_hosts(mesh, &SPREADS, |transport, topology, workspace| {
        let (own, size) = (transport.rank().index(), transport.size());
        let mut results = Vec::new();
        for (combine, length) in cases() {
            let Combine { dtype, reduction } = combine;
            let inputs: Vec<Vec<u8>> = (0..size)
                .map(|rank| input(dtype, reduction, &[rank, length], length))
                .collect();
            let mut buffer = inputs[own].clone();
            hierarchical_allreduce(transport, topology, combine, &mut buffer, workspace).unwrap();
            let expected = expected_alone(size, combine, &inputs);
            assert!(
                buffer == expected,
                "{combine:?} of {length} over {topology:?} at {own}"
            );

            if is_float(dtype) {
                let mut wild = wild_input(dtype, &[own, length], length);
                hierarchical_allreduce(transport, topology, combine, &mut wild, workspace).unwrap();
                results.extend(wild);
            }
        }
        results
    });
}

pub(crate) fn allgather(mesh: MakeMesh) {
    on_hosts(mesh, &SPREADS, |transport, topology, _| {
        let mut results = Vec::new();
        let own = transport.rank().index();
        for (case, counts) in divisions(transport.size()).into_iter().enumerate() {
            results.extend(check_allgather(transport, topology, own, (case, &counts)));
        }
        results
    });
}

/// Gathers parts of known content; `own` is the caller's position among all members.
fn check_allgather(
    transport: &mut dyn Transport,
    topology: &Topology,
    own: usize,
    (case, counts): (usize, &[usize]),
) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = counts
        .iter()
        .enumerate()
        .map(|(owner, &length)| part_of(owner, case, length))
        .collect();
    let expected = parts.concat();
    let start: usize = counts[..own].iter().sum();
    let mut output = vec![0xee; expected.len()];
    output[start..start + counts[own]].copy_from_slice(&parts[own]);
    let target = PartsMut {
        bytes: &mut output,
        counts,
    };
    hierarchical_allgather(transport, topology, target, &TUNING).unwrap();
    assert!(output == expected, "{counts:?} over {topology:?} at {own}");
    output
}

#[test]
fn some_of_a_jobs_ranks_take_part() {
    let job = topology(&[2, 1, 0, 1, 2, 0, 1]);
    for members in [&[5, 2, 1, 6][..], &[4, 5, 1, 3], &[4, 0]] {
        let members: Vec<Rank> = members.iter().copied().map(Rank::new).collect();
        let topology = job.restricted_to(&members).unwrap();
        let ends = run_ranks_with(mem::mesh(7), move |rank, mut transport| {
            let Ok(own) = topology.members().binary_search(&rank) else {
                return transport;
            };
            let combine = Combine {
                dtype: DType::Int64,
                reduction: Reduction::Sum,
            };
            let mut buffer: Vec<i64> = vec![i64::from(rank.number()); 500];
            let bytes = bytemuck::cast_slice_mut(&mut buffer);
            let mut workspace = Workspace::new(TUNING);
            hierarchical_allreduce(&mut transport, &topology, combine, bytes, &mut workspace)
                .unwrap();
            let numbers = topology
                .members()
                .iter()
                .map(|rank| i64::from(rank.number()));
            assert_eq!(buffer, [numbers.sum(); 500]);

            let counts: Vec<usize> = (0..topology.members().len())
                .map(|at| 300 * at + 1)
                .collect();
            check_allgather(&mut transport, &topology, own, (0, &counts));
            transport
        });
        assert_eq!(ends.len(), 7);
    }
}

#[test]
fn ranks_and_lengths_that_do_not_fit_are_refused() {
    let mut mesh = mem::mesh(2);
    let sum = Combine {
        dtype: DType::Int32,
        reduction: Reduction::Sum,
    };
    let mut workspace = Workspace::new(TUNING);
    let mut refused = |host_of: &[usize], bytes: usize| {
        let topology = topology(host_of);
        let mut buffer = vec![0; bytes];
        let target = &mut mesh[1];
        hierarchical_allreduce(target, &topology, sum, &mut buffer, &mut workspace)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&[0, 0, 1], 4),
        "the group names rank 2, but the job has only 2 ranks"
    );
    assert_eq!(
        refused(&[0], 4),
        "rank 1 is not one of the 1 members of the group; only members may call"
    );
    assert_eq!(
        refused(&[0, 1], 6),
        "6 bytes are no whole number of int32 elements"
    );

    let topology = topology(&[0, 1]);
    let output = PartsMut {
        bytes: &mut [0; 4],
        counts: &[2, 3],
    };
    let gathered = hierarchical_allgather(&mut mesh[0], &topology, output, &TUNING).unwrap_err();
    assert_eq!(
        gathered.to_string(),
        "the output of allgather should be 5 long but is 4"
    );
}
