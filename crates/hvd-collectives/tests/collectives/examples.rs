//! Worked examples of what users see, over memory: averages, scaling, rows of gathered and
//! scattered tensors, layouts of fused ones.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use hvd_collectives::kernel::{copy_scaled, scale};
use hvd_collectives::{
    Combine, Communicator, Parts, PartsMut, Reduction, ScatterBuffers, Workspace, allgather,
    allreduce, alltoall, exchange_counts, reducescatter, share,
};
use hvd_types::DType;

use crate::harness::{TUNING, in_group};

const ROW: usize = 3;

fn sum(dtype: DType) -> Combine {
    Combine {
        dtype,
        reduction: Reduction::Sum,
    }
}

/// Sums `value`, scaled before and after, and returns the one element that results.
fn sum_scaled<T: Pod>(
    (comm, workspace): (&mut Communicator<'_>, &mut Workspace),
    dtype: DType,
    value: T,
    (before, after): (f64, f64),
) -> T {
    let mut buffer = [T::zeroed()];
    copy_scaled(
        dtype,
        before,
        cast_slice(&[value]),
        cast_slice_mut(&mut buffer),
    )
    .unwrap();
    allreduce(comm, sum(dtype), cast_slice_mut(&mut buffer), workspace).unwrap();
    scale(dtype, after, cast_slice_mut(&mut buffer)).unwrap();
    buffer[0]
}

fn average<T: Pod + Send + Sync>(dtype: DType, values: &'static [T]) -> Vec<T> {
    in_group(values.len(), move |comm, workspace| {
        let value = values[comm.index()];
        #[expect(clippy::cast_precision_loss, reason = "groups are small")]
        let reciprocal = 1.0 / comm.size() as f64;
        sum_scaled((comm, workspace), dtype, value, (1.0, reciprocal))
    })
}

#[test]
fn sum_of_the_ranks_of_four() {
    let results = in_group(4, |comm, workspace| {
        let own = i32::try_from(comm.index()).unwrap();
        sum_scaled((comm, workspace), DType::Int32, own, (1.0, 1.0))
    });
    assert_eq!(results, [6, 6, 6, 6]);
}

#[test]
fn megabytes_with_the_default_tuning() {
    const ELEMENTS: usize = 700_001;
    let results = in_group(3, |comm, _| {
        let own = i32::try_from(comm.index()).unwrap();
        let mut buffer: Vec<i32> = (0..).map(|at| at * (own + 1)).take(ELEMENTS).collect();
        let bytes = cast_slice_mut(&mut buffer);
        allreduce(comm, sum(DType::Int32), bytes, &mut Workspace::default()).unwrap();
        buffer
    });
    for buffer in results {
        assert_eq!(buffer.len(), ELEMENTS);
        assert!(buffer.into_iter().eq((0..).map(|at| at * 6).take(ELEMENTS)));
    }
}

#[test]
fn integer_averages_are_truncated_toward_zero() {
    assert_eq!(average(DType::Int32, &[1, 2]), [1, 1]);
    assert_eq!(average(DType::Int32, &[-1, -2]), [-1, -1]);
}

#[test]
fn short_integers_wrap_before_they_are_averaged() {
    assert_eq!(average(DType::Uint8, &[200_u8, 200]), [72, 72]);
}

#[test]
fn average_with_a_rank_that_joined_with_zeros() {
    assert_eq!(
        average(DType::Float32, &[0.0_f32, 3.0, 3.0]),
        [2.0, 2.0, 2.0]
    );
}

#[test]
fn integers_are_truncated_when_prescaled() {
    let results = in_group(2, |comm, workspace| {
        sum_scaled((comm, workspace), DType::Int32, 3, (0.5, 1.0))
    });
    assert_eq!(results, [2, 2]);
}

#[test]
fn float32_is_scaled_by_factors_rounded_to_float32() {
    let results = in_group(2, |comm, workspace| {
        let value = [3.0_f32, 5.0][comm.index()];
        sum_scaled((comm, workspace), DType::Float32, value, (0.1, 1.0 / 3.0))
    });
    let expected = (1.0_f32 / 3.0) * (3.0 * 0.1_f32 + 5.0 * 0.1_f32);
    let bits: Vec<u32> = results.into_iter().map(f32::to_bits).collect();
    assert_eq!(bits, [expected.to_bits(); 2]);
}

#[test]
fn gathered_rows_are_in_order_of_rank() {
    let results = in_group(3, |comm, _| {
        let rows: [&[u8]; 3] = [b"abc", b"", b"defghi"];
        let counts = rows.map(<[u8]>::len);
        let mut output = vec![0; 9];
        let target = PartsMut {
            bytes: &mut output,
            counts: &counts,
        };
        allgather(comm, rows[comm.index()], target, &TUNING).unwrap();
        output
    });
    assert_eq!(results, [b"abcdefghi"; 3]);
}

/// Scatters a tensor whose element r, c is 10 r + c on every rank.
fn scattered_rows(rows: usize) -> Vec<Vec<i32>> {
    in_group(3, move |comm, workspace| {
        let counts: Vec<usize> = (0..3)
            .map(|member| share(rows, 3, member).len() * ROW * 4)
            .collect();
        let tensor: Vec<i32> = (0..rows * ROW)
            .map(|at| i32::try_from(at / ROW * 10 + at % ROW).unwrap())
            .collect();
        let mut output = vec![0_i32; counts[comm.index()] / 4];
        let input = Parts {
            bytes: cast_slice(&tensor),
            counts: &counts,
        };
        let buffers = ScatterBuffers {
            input,
            output: cast_slice_mut(&mut output),
        };
        reducescatter(comm, sum(DType::Int32), buffers, workspace).unwrap();
        output
    })
}

#[test]
fn reducescatter_gives_surplus_rows_to_the_first_ranks() {
    assert_eq!(
        scattered_rows(5),
        [
            vec![0, 3, 6, 30, 33, 36],
            vec![60, 63, 66, 90, 93, 96],
            vec![120, 123, 126]
        ]
    );
    assert_eq!(scattered_rows(2), [vec![0, 3, 6], vec![30, 33, 36], vec![]]);
}

#[test]
fn fused_reducescatter_holds_each_ranks_slices_of_all_tensors() {
    // Tensors of 5 and 2 rows of one byte, by destination: rows 0-1 | 0, 2-3 | 1, 4 | none.
    let results = in_group(3, |comm, workspace| {
        let (fused, counts) = ([1, 2, 50, 3, 4, 60, 5], [3, 3, 1]);
        let mut output = vec![0; counts[comm.index()]];
        let input = Parts {
            bytes: &fused,
            counts: &counts,
        };
        let buffers = ScatterBuffers {
            input,
            output: &mut output,
        };
        reducescatter(comm, sum(DType::Uint8), buffers, workspace).unwrap();
        output
    });
    assert_eq!(results, [vec![3, 6, 150], vec![9, 12, 180], vec![15]]);
}

#[test]
fn alltoall_with_splits_leaves_the_tail_unsent() {
    let results = in_group(2, |comm, _| {
        let (rows, splits): (&[u8; 4], [u64; 2]) =
            [(b"abcd", [1, 2]), (b"wxyz", [3, 0])][comm.index()];
        let mut received_splits = [0; 2];
        exchange_counts(comm, &splits, &mut received_splits).unwrap();
        let counts = |splits: [u64; 2]| splits.map(|rows| usize::try_from(rows).unwrap());
        let (to_send, to_receive) = (counts(splits), counts(received_splits));
        let mut output = vec![0; to_receive.iter().sum()];
        let input = Parts {
            bytes: rows,
            counts: &to_send,
        };
        let target = PartsMut {
            bytes: &mut output,
            counts: &to_receive,
        };
        alltoall(comm, input, target).unwrap();
        (output, received_splits)
    });
    assert_eq!(results[0], (b"awxy".to_vec(), [1, 3]));
    assert_eq!(results[1], (b"bc".to_vec(), [2, 0]));
}
