//! Adasum against a tree over whole vectors, its worked examples, its limits, and what it refuses.

use bytemuck::{cast_slice, cast_slice_mut};
use half::f16;
use hvd_collectives::{Communicator, Error, Workspace};
use hvd_types::DType;

use crate::harness::{MakeMesh, in_group, on_sizes};
use crate::values::{Numbers, float, float_bytes, wild_input};

const FLOATS: [DType; 4] = [
    DType::Float16,
    DType::Bfloat16,
    DType::Float32,
    DType::Float64,
];

/// Elements of each fused tensor: none, empty ones, fewer than ranks, one, many.
const FUSED: [&[usize]; 8] = [
    &[],
    &[0],
    &[1],
    &[13],
    &[1037],
    &[1, 1, 1],
    &[0, 300, 0],
    &[3, 0, 1, 500, 8, 16, 0, 7],
];

pub(crate) fn adasum(mesh: MakeMesh) {
    on_sizes(mesh, &[1, 2, 4, 8], |comm, workspace| {
        let mut results = Vec::new();
        for dtype in FLOATS {
            for elements in FUSED {
                results.extend(check(comm, workspace, dtype, elements));

                let total = elements.iter().sum();
                let mut wild = wild_input(dtype, &[comm.index(), total], total);
                let bytes = lengths(dtype, elements);
                hvd_collectives::adasum(comm, dtype, &mut wild, &bytes, workspace).unwrap();
                results.extend(wild);
            }
        }
        results
    });
}

fn lengths(dtype: DType, elements: &[usize]) -> Vec<usize> {
    elements.iter().map(|count| count * dtype.size()).collect()
}

/// One case against the reference, and against each tensor by itself.
fn check(
    comm: &mut Communicator<'_>,
    workspace: &mut Workspace,
    dtype: DType,
    elements: &[usize],
) -> Vec<u8> {
    let bytes = lengths(dtype, elements);
    let inputs: Vec<Vec<Vec<f64>>> = (0..comm.size())
        .map(|member| tensors(dtype, member, elements))
        .collect();
    let own: Vec<Vec<u8>> = inputs[comm.index()]
        .iter()
        .map(|tensor| to_bytes(dtype, tensor))
        .collect();
    let mut fused = own.concat();
    hvd_collectives::adasum(comm, dtype, &mut fused, &bytes, workspace).unwrap();

    let mut rest = &fused[..];
    for (tensor, mut alone) in own.into_iter().enumerate() {
        let (result, others) = rest.split_at(alone.len());
        rest = others;
        let vectors: Vec<Vec<f64>> = inputs.iter().map(|input| input[tensor].clone()).collect();
        assert_close(dtype, result, &vectors);
        hvd_collectives::adasum(comm, dtype, &mut alone, &[result.len()], workspace).unwrap();
        assert!(
            alone == result,
            "ADASUM-2: tensor {tensor} of {elements:?} fused and alone, {dtype}"
        );
    }
    fused
}

/// Vectors with something in common, of different lengths and magnitudes.
fn tensors(dtype: DType, member: usize, elements: &[usize]) -> Vec<Vec<f64>> {
    let mut tensors = Vec::new();
    for (tensor, &count) in elements.iter().enumerate() {
        let mut numbers = Numbers::new(&[member, tensor]);
        let mut common = Numbers::new(&[tensor]);
        let mut next = || small(&mut numbers) + small(&mut common);
        tensors.push((0..count).map(|_| rounded(dtype, next())).collect());
    }
    tensors
}

fn small(numbers: &mut Numbers) -> f64 {
    f64::from(u8::try_from(numbers.below(201)).unwrap()) / 100.0 - 1.0
}

fn rounded(dtype: DType, value: f64) -> f64 {
    float(dtype, &float_bytes(dtype, value))
}

fn to_bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|&value| float_bytes(dtype, value))
        .collect()
}

/// Halves of the list are reduced by themselves, then combined, on whole vectors.
fn tree(dtype: DType, vectors: &[Vec<f64>]) -> Vec<f64> {
    let [single] = vectors else {
        let (low, high) = vectors.split_at(vectors.len() / 2);
        return pair(dtype, &tree(dtype, low), &tree(dtype, high));
    };
    single.clone()
}

fn pair(dtype: DType, first: &[f64], second: &[f64]) -> Vec<f64> {
    let dot = |left: &[f64], right: &[f64]| -> f64 {
        left.iter()
            .zip(right)
            .map(|(left, right)| left * right)
            .sum()
    };
    let common = dot(first, second);
    let weight = |square: f64| {
        let negligible = square < f64::MIN_POSITIVE.sqrt();
        if negligible {
            1.0
        } else {
            1.0 - common / (2.0 * square)
        }
    };
    let weights = (weight(dot(first, first)), weight(dot(second, second)));
    first
        .iter()
        .zip(second)
        .map(|(first, second)| rounded(dtype, weights.0 * first + weights.1 * second))
        .collect()
}

/// Compares with the tree, up to a few roundings of the largest element.
fn assert_close(dtype: DType, got: &[u8], vectors: &[Vec<f64>]) {
    let digits = match dtype {
        DType::Float16 => 11,
        DType::Bfloat16 => 8,
        DType::Float32 => 24,
        _ => 50,
    };
    let expected = tree(dtype, vectors);
    let largest = vectors
        .concat()
        .into_iter()
        .fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let tolerance = 4.0 * largest * f64::powi(0.5, digits);
    for (at, expected) in expected.iter().enumerate() {
        let got = float(dtype, &got[at * dtype.size()..][..dtype.size()]);
        assert!(
            (got - expected).abs() <= tolerance,
            "{dtype} element {at}: {got}, expected {expected}"
        );
    }
}

/// The result of one tensor per rank, which must be the same on all ranks.
fn adasum_of<T: bytemuck::Pod + Send + Sync>(dtype: DType, inputs: &[&[T]]) -> Vec<T> {
    let inputs: Vec<Vec<T>> = inputs.iter().map(|input| input.to_vec()).collect();
    let results = in_group(inputs.len(), move |comm, workspace| {
        let mut values = inputs[comm.index()].clone();
        let bytes: &mut [u8] = cast_slice_mut(&mut values);
        let tensors = [bytes.len()];
        hvd_collectives::adasum(comm, dtype, bytes, &tensors, workspace).unwrap();
        values
    });
    for result in &results {
        assert_eq!(
            cast_slice::<T, u8>(result),
            cast_slice::<T, u8>(&results[0])
        );
    }
    results[0].clone()
}

#[test]
fn worked_examples() {
    let adasum = |first: [f64; 2], second: [f64; 2]| {
        let narrow = |vector: [f64; 2]| vector.map(f16::from_f64);
        let halves = adasum_of(DType::Float16, &[&narrow(first), &narrow(second)]);
        let result = adasum_of(DType::Float64, &[&first, &second]);
        assert_eq!(halves, [result[0], result[1]].map(f16::from_f64));
        result
    };
    assert_eq!(adasum([1.0, 0.0], [0.0, 1.0]), [1.0, 1.0]);
    assert_eq!(adasum([2.0, 2.0], [2.0, 2.0]), [2.0, 2.0]);
    assert_eq!(adasum([1.0, 0.0], [1.0, 1.0]), [1.25, 0.75]);
}

#[test]
fn orthogonal_vectors_are_added_and_equal_ones_averaged() {
    let unit = |at: usize| {
        let mut vector = [0.0_f32; 4];
        vector[at] = 3.0;
        vector
    };
    let units = [unit(2), unit(0), unit(3), unit(1)];
    let units: Vec<&[f32]> = units.iter().map(<[f32; 4]>::as_slice).collect();
    assert_eq!(adasum_of(DType::Float32, &units), [3.0; 4]);
    let vector = [0.3_f32, -1.7, 5.0];
    assert_eq!(adasum_of(DType::Float32, &[&vector[..]; 8]), vector);
    let zeros = [0.0; 3];
    let lonely = [&zeros[..], &zeros, &vector, &zeros];
    assert_eq!(adasum_of(DType::Float32, &lonely), vector);
    assert_eq!(adasum_of(DType::Float32, &[&zeros[..]; 4]), zeros);
}

#[test]
fn tiny_and_huge_magnitudes() {
    for magnitude in [f32::MAX, 1.0e30, 1.0e-30, f32::MIN_POSITIVE] {
        let vector = [magnitude, -magnitude];
        assert_eq!(adasum_of(DType::Float32, &[&vector[..]; 4]), vector);
    }
    assert_eq!(adasum_of(DType::Float16, &[&[f16::MAX][..]; 4]), [f16::MAX]);
    // The least that counts as a vector, and what is so small that it is simply added.
    for (magnitude, expected) in [(1.0e150, 1.0e150), (1.0e-76, 1.0e-76), (1.0e-80, 2.0e-80)] {
        let result = adasum_of(DType::Float64, &[&[magnitude], &[magnitude]]);
        assert_eq!(result, [expected]);
    }
    let apart = adasum_of(DType::Float64, &[&[1.0e140, 0.0], &[0.0, 1.0e-140]]);
    assert_eq!(apart, [1.0e140, 1.0e-140]);
}

#[test]
fn groups_types_and_lengths_that_are_refused() {
    let refused = |size: usize, dtype: DType, tensors: &'static [usize]| {
        let errors = in_group(size, move |comm, workspace| {
            let mut buffer = [0; 8];
            hvd_collectives::adasum(comm, dtype, &mut buffer, tensors, workspace).unwrap_err()
        });
        let text = errors[0].to_string();
        assert!(errors.iter().all(|error| error.to_string() == text));
        assert!(!matches!(errors[0], Error::Transport(_)));
        text
    };
    assert_eq!(
        refused(6, DType::Float32, &[8]),
        "adasum needs a power of two of ranks, but the group has 6; start 4 or 8"
    );
    assert_eq!(
        refused(2, DType::Int32, &[8]),
        "adasum needs float16, bfloat16, float32 or float64 elements, not int32; \
         convert the tensor or use a sum or an average"
    );
    assert_eq!(
        refused(2, DType::Float32, &[6, 2]),
        "6 bytes are no whole number of float32 elements"
    );
    assert_eq!(
        refused(2, DType::Float32, &[4]),
        "the buffer of fused tensors should be 4 long but is 8"
    );
}
