//! The examples of the specification, and the invariants on arbitrary lists.

use hvd_types::{DType, Device, Rank, ReduceOp, Shape};
use hvd_wire::CacheId;
use proptest::prelude::*;

use super::*;
use crate::negotiate::agreement::Devices;

const THRESHOLD: u64 = 1024;

fn tensor(id: u64, kind: OpKind, dtype: DType, bytes: u64) -> Agreed {
    let elements = bytes / dtype.size() as u64;
    let agreement = Agreement {
        name: format!("t{id}").into(),
        kind,
        dtype,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 1.0,
        root: Rank::new(0),
        shape: Shape::new([elements]),
        first_dimensions: if kind == OpKind::Allgather {
            vec![elements / 2; 2]
        } else {
            vec![]
        },
        devices: Devices::Same(Device::Cpu),
        group: None,
    };
    Agreed {
        agreement: Arc::new(agreement),
        reference: TensorRef::Cached(CacheId(id)),
        divisor: 2,
    }
}

/// The fused lists of numbers, from (data type, bytes) of allreduced tensors numbered from 0.
fn batches(tensors: &[(DType, u64)]) -> Vec<Vec<u64>> {
    let numbered = (0..).zip(tensors);
    let tensors = numbered.map(|(id, &(dtype, bytes))| tensor(id, OpKind::Allreduce, dtype, bytes));
    groups(&fuse(tensors.collect(), THRESHOLD, GroupFusion::Mixed))
}

fn groups(operations: &[Operation]) -> Vec<Vec<u64>> {
    let number = |reference: &TensorRef| match reference {
        TensorRef::Cached(id) => id.0,
        TensorRef::New(_) => unreachable!("these tests only use numbers"),
    };
    operations
        .iter()
        .map(|operation| operation.tensors.iter().map(number).collect())
        .collect()
}

#[test]
fn looks_ahead_over_another_type() {
    use DType::{Float16, Float32};
    assert_eq!(
        batches(&[(Float32, 400), (Float16, 100), (Float32, 400)]),
        [vec![0, 2], vec![1]]
    );
}

#[test]
fn stops_looking_when_what_is_jumped_over_is_too_much() {
    use DType::{Float16, Float32};
    assert_eq!(
        batches(&[(Float32, 400), (Float16, 700), (Float32, 400)]),
        [vec![0], vec![1], vec![2]]
    );
}

#[test]
fn a_tensor_above_the_threshold_travels_alone() {
    use DType::Float32;
    assert_eq!(
        batches(&[(Float32, 4000), (Float32, 4), (Float32, 4)]),
        [vec![0], vec![1, 2]]
    );
}

#[test]
fn threshold_zero_fuses_nothing() {
    let tensors = (0..3)
        .map(|id| tensor(id, OpKind::Allreduce, DType::Int8, 4))
        .collect();
    assert_eq!(
        groups(&fuse(tensors, 0, GroupFusion::Mixed)),
        [vec![0], vec![1], vec![2]]
    );
}

#[test]
fn broadcasts_and_alltoalls_are_never_fused() {
    for kind in [OpKind::Broadcast, OpKind::Alltoall, OpKind::Barrier] {
        let tensors = (0..2).map(|id| tensor(id, kind, DType::Int8, 4)).collect();
        assert_eq!(
            groups(&fuse(tensors, THRESHOLD, GroupFusion::Mixed)),
            [vec![0], vec![1]]
        );
    }
}

#[test]
fn allgathers_count_the_bytes_of_all_ranks_and_stop_at_a_barrier() {
    let gather = |id, bytes| tensor(id, OpKind::Allgather, DType::Int8, bytes);
    let fused = fuse(
        vec![gather(0, 600), gather(1, 400), gather(2, 600)],
        THRESHOLD,
        GroupFusion::Mixed,
    );
    assert_eq!(groups(&fused), [vec![0, 1], vec![2]]);
    let barrier = tensor(9, OpKind::Barrier, DType::Int8, 0);
    let fused = fuse(
        vec![gather(0, 4), barrier, gather(1, 4)],
        THRESHOLD,
        GroupFusion::Mixed,
    );
    assert_eq!(groups(&fused), [vec![0], vec![9], vec![1]]);
}

#[test]
fn separate_groups_do_not_mix_and_single_tensors_stay_alone() {
    let grouped = |id, group: Option<&str>| {
        let Agreed { agreement, .. } = tensor(id, OpKind::Allreduce, DType::Int8, 4);
        let group = group.map(Into::into);
        let agreement = Arc::new(Agreement {
            group,
            ..(*agreement).clone()
        });
        Agreed {
            agreement,
            ..tensor(id, OpKind::Allreduce, DType::Int8, 4)
        }
    };
    let tensors = || {
        vec![
            grouped(0, Some("a")),
            grouped(1, None),
            grouped(2, Some("a")),
            grouped(3, Some("b")),
            grouped(4, None),
        ]
    };
    assert_eq!(
        groups(&fuse(tensors(), THRESHOLD, GroupFusion::Separate)),
        [vec![0, 2], vec![1], vec![3], vec![4]]
    );
    assert_eq!(
        groups(&fuse(tensors(), THRESHOLD, GroupFusion::Mixed)),
        [vec![0, 1, 2, 3, 4]]
    );
}

#[test]
fn averages_over_different_numbers_of_ranks_are_not_fused() {
    let contributed = |id, divisor| Agreed {
        divisor,
        ..tensor(id, OpKind::Allreduce, DType::Int8, 4)
    };
    let tensors = vec![contributed(0, 2), contributed(1, 3), contributed(2, 2)];
    assert_eq!(
        groups(&fuse(tensors, THRESHOLD, GroupFusion::Mixed)),
        [vec![0, 2], vec![1]]
    );
}

fn arbitrary() -> impl Strategy<Value = Vec<(OpKind, DType, u64)>> {
    let kind = prop::sample::select(vec![
        OpKind::Allreduce,
        OpKind::Allgather,
        OpKind::Reducescatter,
        OpKind::Broadcast,
        OpKind::Barrier,
    ]);
    let dtype = prop::sample::select(vec![DType::Int8, DType::Float32]);
    prop::collection::vec((kind, dtype, 0..2000_u64), 0..30)
}

proptest! {
    #[test]
    fn fuse_1_2_3_hold_for_any_list(list in arbitrary()) {
        let tensors: Vec<Agreed> = (0..)
            .zip(&list)
            .map(|(id, &(kind, dtype, bytes))| tensor(id, kind, dtype, bytes / 8 * 8))
            .collect();
        let operations = fuse(tensors.clone(), THRESHOLD, GroupFusion::Mixed);

        let mut all: Vec<u64> = groups(&operations).concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..tensors.len() as u64).collect::<Vec<_>>());
        for (operation, numbers) in operations.iter().zip(groups(&operations)) {
            let members: Vec<&Agreement> = numbers
                .iter()
                .map(|&number| &*tensors[usize::try_from(number).unwrap()].agreement)
                .collect();
            let bytes: u64 = members.iter().map(|reference| reference.bytes()).sum();
            prop_assert!(members.len() == 1 || bytes <= THRESHOLD);
            prop_assert!(numbers.is_sorted());
            for reference in members {
                prop_assert_eq!((reference.kind, reference.dtype), (operation.kind, operation.dtype));
            }
        }
    }
}
