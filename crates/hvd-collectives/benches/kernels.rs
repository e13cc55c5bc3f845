//! Bytes per second of the element-wise loops: `cargo bench -p hvd-collectives`.

#![expect(missing_docs, reason = "criterion's macros make functions without any")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hvd_collectives::Reduction;
use hvd_collectives::kernel::{copy_scaled, reduce};
use hvd_types::DType;

/// In the first cache, in the second, and in none.
const SIZES: [usize; 3] = [16 << 10, 256 << 10, 64 << 20];

const TYPES: [DType; 5] = [
    DType::Float32,
    DType::Float64,
    DType::Float16,
    DType::Bfloat16,
    DType::Int64,
];

fn sums(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sum");
    for size in SIZES {
        let (mut accumulator, operand) = (vec![0_u8; size], vec![0_u8; size]);
        group.throughput(Throughput::Bytes(size as u64));
        for dtype in TYPES {
            let id = BenchmarkId::new(dtype.to_string(), size);
            group.bench_function(id, |bencher| {
                bencher.iter(|| reduce(dtype, Reduction::Sum, &mut accumulator, &operand));
            });
        }
    }
    group.finish();
}

fn scaled_copies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scaled copy");
    for size in SIZES {
        let (source, mut destination) = (vec![0_u8; size], vec![0_u8; size]);
        group.throughput(Throughput::Bytes(size as u64));
        for dtype in TYPES {
            let id = BenchmarkId::new(dtype.to_string(), size);
            group.bench_function(id, |bencher| {
                bencher.iter(|| copy_scaled(dtype, 0.5, &source, &mut destination));
            });
        }
    }
    group.finish();
}

criterion_group!(kernels, sums, scaled_copies);
criterion_main!(kernels);
