//! Calls that must fail, with what they say; and a peer that dies in the middle.

use hvd_collectives::kernel::{copy_scaled, reduce, scale};
use hvd_collectives::{
    Combine, Communicator, Error, Parts, PartsMut, Reduction, Result, ScatterBuffers, Workspace,
    allgather, alltoall, broadcast, exchange_counts, reducescatter, ring_allreduce,
};
use hvd_testkit::run_ranks_with;
use hvd_transport::mem;
use hvd_types::{DType, Rank};

use crate::harness::TUNING;

const SUM: Combine = Combine {
    dtype: DType::Int32,
    reduction: Reduction::Sum,
};

fn alone<T>(call: impl Fn(&mut Communicator<'_>, &mut Workspace) -> Result<T>) -> String {
    let mut mesh = mem::mesh(1);
    let members = [Rank::new(0)];
    let mut comm = Communicator::new(&mut mesh[0], &members).unwrap();
    call(&mut comm, &mut Workspace::new(TUNING))
        .err()
        .unwrap()
        .to_string()
}

#[test]
fn parts_of_elements() {
    let text = "6 bytes are no whole number of int32 elements";
    assert_eq!(
        alone(|comm, workspace| ring_allreduce(comm, SUM, &mut [0; 6], workspace)),
        text
    );
    let scattered = alone(|comm, workspace| {
        let input = Parts {
            bytes: &[0; 6],
            counts: &[6],
        };
        reducescatter(
            comm,
            SUM,
            ScatterBuffers {
                input,
                output: &mut [0; 6],
            },
            workspace,
        )
    });
    assert_eq!(scattered, text);
    let scaled = scale(DType::Int32, 2.0, &mut [0; 6]).unwrap_err();
    assert_eq!(scaled.to_string(), text);
}

#[test]
fn lengths_that_do_not_agree() {
    let gathered = alone(|comm, _| {
        allgather(
            comm,
            &[0; 2],
            PartsMut {
                bytes: &mut [0; 3],
                counts: &[3],
            },
            &TUNING,
        )
    });
    assert_eq!(gathered, "the part to gather should be 3 long but is 2");
    let sent = alone(|comm, _| {
        let output = PartsMut {
            bytes: &mut [0; 4],
            counts: &[4],
        };
        alltoall(
            comm,
            Parts {
                bytes: &[0; 3],
                counts: &[4],
            },
            output,
        )
    });
    assert_eq!(sent, "the input of alltoall should be 4 long but is 3");
    let counted = alone(|comm, _| exchange_counts(comm, &[1, 2], &mut [0]));
    assert_eq!(
        counted,
        "the list of numbers to send should be 1 long but is 2"
    );
    let scattered = alone(|comm, workspace| {
        let input = Parts {
            bytes: &[0; 8],
            counts: &[8],
        };
        reducescatter(
            comm,
            SUM,
            ScatterBuffers {
                input,
                output: &mut [0; 4],
            },
            workspace,
        )
    });
    assert_eq!(
        scattered,
        "the output of reducescatter should be 8 long but is 4"
    );
}

#[test]
fn kernels_with_lengths_that_do_not_agree() {
    let reduced = reduce(DType::Uint8, Reduction::Sum, &mut [0; 2], &[0]).unwrap_err();
    assert_eq!(
        reduced.to_string(),
        "the operand of a reduction should be 2 long but is 1"
    );
    let copied = copy_scaled(DType::Uint8, 1.0, &[0; 2], &mut [0]).unwrap_err();
    assert_eq!(
        copied.to_string(),
        "the destination of a copy should be 2 long but is 1"
    );
}

#[test]
fn a_root_outside_the_group() {
    let text = "there is no member 1 in a group of 1";
    assert_eq!(
        alone(|comm, _| broadcast(comm, 1, &mut [0; 4], &TUNING)),
        text
    );
    assert_eq!(
        alone(|comm, _| broadcast(comm, 1, &mut [0; 400], &TUNING)),
        text
    );
}

#[test]
fn truths_times_two() {
    let text = "bool elements cannot be scaled by 2; use a factor of 1 or another type";
    assert_eq!(
        scale(DType::Bool, 2.0, &mut [1]).unwrap_err().to_string(),
        text
    );
    let copied = copy_scaled(DType::Bool, 2.0, &[1], &mut [0]).unwrap_err();
    assert_eq!(copied.to_string(), text);
}

#[test]
fn a_peer_that_dies_ends_the_collective_everywhere() {
    let members: Vec<Rank> = (0..4).map(Rank::new).collect();
    let errors = run_ranks_with(mem::mesh(4), move |rank, mut transport| {
        if rank == Rank::new(2) {
            transport.die();
            return None;
        }
        let mut comm = Communicator::new(&mut transport, &members).unwrap();
        let mut workspace = Workspace::new(TUNING);
        ring_allreduce(&mut comm, SUM, &mut [0; 4000], &mut workspace).err()
    });
    assert_eq!(
        errors.iter().flatten().count(),
        3,
        "no rank can have all of rank 2's elements"
    );
    for error in errors.into_iter().flatten() {
        let Error::Transport(hvd_transport::Error::PeerLost(failure)) = error else {
            panic!("{error}");
        };
        assert_eq!(failure.rank, Rank::new(2));
    }
}
