//! Word for word what users read, and which check comes first.

use hvd_types::{DType, Device, ReduceOp, Shape};

use super::*;

fn request(kind: OpKind) -> Request {
    Request {
        name: "x".into(),
        kind,
        dtype: DType::Float32,
        shape: Shape::new([4, 3]),
        root: Rank::new(0),
        device: Device::Cpu,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 1.0,
        group: None,
    }
}

fn claim(rank: u32, request: Request) -> Claim {
    Claim {
        party: Party {
            rank: Rank::new(rank),
            host: format!("h{rank}"),
        },
        request,
    }
}

/// The text when rank 1 differs from rank 0 by `change`.
fn text(kind: OpKind, change: impl FnOnce(&mut Request)) -> String {
    let mut other = request(kind);
    change(&mut other);
    validate(&[claim(0, request(kind)), claim(1, other)], 0)
        .unwrap_err()
        .to_string()
}

#[test]
fn equal_requests_pass_for_every_operation() {
    for kind in OpKind::ALL {
        let claims = [
            claim(1, request(kind)),
            claim(0, request(kind)),
            claim(2, request(kind)),
        ];
        assert_eq!(validate(&claims, 0), Ok(()));
    }
    assert_eq!(validate(&[], 0), Ok(()));
}

#[test]
fn data_types_differ() {
    assert_eq!(
        text(OpKind::Allreduce, |request| request.dtype = DType::Int32),
        "allreduce of tensor `x`: ranks do not agree on the data type: rank 0 on host `h0` has \
         float32, rank 1 on host `h1` has int32"
    );
}

#[test]
fn operations_differ() {
    assert_eq!(
        text(OpKind::Allreduce, |request| request.kind =
            OpKind::Allgather),
        "allreduce of tensor `x`: ranks do not agree on the operation: rank 0 on host `h0` has \
         allreduce, rank 1 on host `h1` has allgather"
    );
}

#[test]
fn shapes_differ_even_with_equal_element_counts() {
    for kind in [
        OpKind::Allreduce,
        OpKind::Adasum,
        OpKind::Broadcast,
        OpKind::Reducescatter,
    ] {
        assert_eq!(
            text(kind, |request| request.shape = Shape::new([12])),
            format!(
                "{kind} of tensor `x`: ranks do not agree on the shape: rank 0 on host `h0` has \
                 [4, 3], rank 1 on host `h1` has [12]"
            )
        );
    }
}

#[test]
fn factors_differ() {
    for kind in [OpKind::Allreduce, OpKind::Reducescatter] {
        assert_eq!(
            text(kind, |request| request.postscale = 0.5),
            format!(
                "{kind} of tensor `x`: ranks do not agree on the scaling factors: rank 0 on host \
                 `h0` has prescale 1 and postscale 1, rank 1 on host `h1` has prescale 1 and \
                 postscale 0.5"
            )
        );
    }
}

#[test]
fn reduce_operations_differ() {
    assert_eq!(
        text(OpKind::Allreduce, |request| request.reduce_op =
            ReduceOp::Max),
        "allreduce of tensor `x`: ranks do not agree on the reduce operation: rank 0 on host `h0` \
         has Sum, rank 1 on host `h1` has Max"
    );
}

#[test]
fn gathered_tensors_may_differ_in_the_first_dimension_only() {
    for kind in [OpKind::Allgather, OpKind::Alltoall] {
        let mut other = request(kind);
        other.shape = Shape::new([9, 3]);
        assert_eq!(
            validate(&[claim(0, request(kind)), claim(1, other)], 0),
            Ok(())
        );
        let prefix = format!("{kind} of tensor `x`: ranks do not agree on the");
        assert_eq!(
            text(kind, |request| request.shape = Shape::new([4, 5])),
            format!(
                "{prefix} size of dimension 1: rank 0 on host `h0` has 3, rank 1 on host `h1` has 5"
            )
        );
        assert_eq!(
            text(kind, |request| request.shape = Shape::new([4])),
            format!(
                "{prefix} number of dimensions: rank 0 on host `h0` has 2, rank 1 on host `h1` has 1"
            )
        );
    }
}

#[test]
fn scalars_cannot_be_gathered_or_scattered() {
    for kind in [OpKind::Allgather, OpKind::Alltoall, OpKind::Reducescatter] {
        let mut scalar = request(kind);
        scalar.shape = Shape::default();
        let claims = [claim(1, scalar.clone()), claim(0, scalar)];
        assert_eq!(
            validate(&claims, 0).unwrap_err().to_string(),
            format!(
                "{kind} of tensor `x`: rank 1 on host `h1` passed a scalar; at least one dimension \
                 is needed"
            )
        );
    }
}

#[test]
fn joined_ranks_rule_out_what_needs_everybody() {
    for kind in [
        OpKind::Alltoall,
        OpKind::Broadcast,
        OpKind::Reducescatter,
        OpKind::Barrier,
    ] {
        assert_eq!(
            validate(&[claim(0, request(kind))], 2)
                .unwrap_err()
                .to_string(),
            format!("{kind} of tensor `x` is not supported while ranks have joined (2 now)")
        );
    }
    assert!(
        validate(&[claim(0, request(OpKind::Allgather))], 1)
            .unwrap_err()
            .to_string()
            .ends_with("pass sparse_as_dense=True to the optimizer")
    );
    assert_eq!(validate(&[claim(0, request(OpKind::Allreduce))], 1), Ok(()));
}

#[test]
fn roots_differ() {
    assert_eq!(
        text(OpKind::Broadcast, |request| request.root = Rank::new(1)),
        "broadcast of tensor `x`: ranks do not agree on the root rank: rank 0 on host `h0` has 0, \
         rank 1 on host `h1` has 1"
    );
}

#[test]
fn devices_differ_but_ordinals_may() {
    assert_eq!(
        text(OpKind::Allgather, |request| request.device = Device::Gpu(1)),
        "allgather of tensor `x`: ranks do not agree on the device: rank 0 on host `h0` has CPU, \
         rank 1 on host `h1` has GPU"
    );
    let mut requests = [request(OpKind::Allreduce), request(OpKind::Allreduce)];
    requests[0].device = Device::Gpu(0);
    requests[1].device = Device::Gpu(1);
    let [a, b] = requests;
    assert_eq!(validate(&[claim(0, a), claim(1, b)], 0), Ok(()));
}

/// Each change also breaks every later check; the earliest must win.
#[test]
fn the_order_of_the_checks_is_horovods() {
    let order = [
        "data type",
        "operation",
        "shape",
        "scaling factors",
        "reduce operation",
        "device",
    ];
    for (skip, expected) in order.into_iter().enumerate() {
        let message = text(OpKind::Allreduce, |request| {
            if skip == 0 {
                request.dtype = DType::Int8;
            }
            if skip <= 1 {
                request.kind = OpKind::Adasum;
            }
            if skip <= 2 {
                request.shape = Shape::new([1]);
            }
            if skip <= 3 {
                request.prescale = 2.0;
            }
            if skip <= 4 {
                request.reduce_op = ReduceOp::Min;
            }
            request.device = Device::Gpu(0);
        });
        assert!(
            message.contains(&format!("agree on the {expected}:")),
            "{message}"
        );
    }
}
