//! The rows of the table that compute: allreduce and reducescatter.

use hvd_collectives::{
    Combine, Communicator, Parts, Reduction, Result, ScatterBuffers, Workspace, share,
};
use hvd_types::DType;

use crate::harness::{LENGTHS, MakeMesh, on_every_size};
use crate::values::{Numbers, expected, input, is_float, wild_input};

/// Any of the allreduce algorithms.
pub(crate) type Allreduce =
    fn(&mut Communicator<'_>, Combine, &mut [u8], &mut Workspace) -> Result<()>;

pub(crate) fn cases() -> impl Iterator<Item = (Combine, usize)> {
    DType::ALL.into_iter().flat_map(|dtype| {
        Reduction::ALL.into_iter().flat_map(move |reduction| {
            LENGTHS
                .into_iter()
                .map(move |length| (Combine { dtype, reduction }, length))
        })
    })
}

pub(crate) fn allreduce(mesh: MakeMesh, algorithm: Allreduce) {
    on_every_size(mesh, move |comm, workspace| {
        let mut results = Vec::new();
        for (combine, length) in cases() {
            let Combine { dtype, reduction } = combine;
            let inputs: Vec<Vec<u8>> = (0..comm.size())
                .map(|member| input(dtype, reduction, &[member, length], length))
                .collect();
            let mut buffer = inputs[comm.index()].clone();
            algorithm(comm, combine, &mut buffer, workspace).unwrap();
            let expected = expected_alone(comm.size(), combine, &inputs);
            assert!(
                buffer == expected,
                "{combine:?} of {length} on {}",
                comm.size()
            );

            if is_float(dtype) {
                let mut wild = wild_input(dtype, &[comm.index(), length], length);
                algorithm(comm, combine, &mut wild, workspace).unwrap();
                results.extend(wild);
            }
        }
        results
    });
}

/// A group of one leaves its input as it is, even `bool` bytes other than 0 and 1.
pub(crate) fn expected_alone(size: usize, combine: Combine, inputs: &[Vec<u8>]) -> Vec<u8> {
    if size == 1 {
        return inputs[0].clone();
    }
    expected(combine.dtype, combine.reduction, inputs)
}

pub(crate) fn reducescatter(mesh: MakeMesh) {
    on_every_size(mesh, |comm, workspace| {
        for (combine, length) in cases() {
            for elements in divisions(comm.size(), length) {
                check_reducescatter(comm, combine, &elements, workspace);
            }
        }
        Vec::new()
    });
}

/// Elements per member: even shares, anything, all for one member.
fn divisions(members: usize, length: usize) -> [Vec<usize>; 3] {
    let mut numbers = Numbers::new(&[members, length]);
    let even = (0..members)
        .map(|member| share(length, members, member).len())
        .collect();
    let any = (0..members)
        .map(|_| numbers.below(3) * numbers.below(1 + length / members))
        .collect();
    let mut single = vec![0; members];
    single[numbers.below(members)] = length;
    [even, any, single]
}

fn check_reducescatter(
    comm: &mut Communicator<'_>,
    combine: Combine,
    elements: &[usize],
    workspace: &mut Workspace,
) {
    let Combine { dtype, reduction } = combine;
    let total: usize = elements.iter().sum();
    let counts: Vec<usize> = elements.iter().map(|count| count * dtype.size()).collect();
    let inputs: Vec<Vec<u8>> = (0..comm.size())
        .map(|member| input(dtype, reduction, &[member, 9], total))
        .collect();
    let own = &inputs[comm.index()];
    let before = own.clone();
    let mut output = vec![0xee; counts[comm.index()]];
    let buffers = ScatterBuffers {
        input: Parts {
            bytes: own,
            counts: &counts,
        },
        output: &mut output,
    };

    hvd_collectives::reducescatter(comm, combine, buffers, workspace).unwrap();

    assert!(*own == before, "the input was changed");
    let start: usize = counts[..comm.index()].iter().sum();
    let whole = expected_alone(comm.size(), combine, &inputs);
    let expected = &whole[start..start + output.len()];
    assert!(
        output == expected,
        "{combine:?} of {elements:?} at {}",
        comm.index()
    );
}
