//! What a step of 161 tensors costs all ranks together, in time of one processor: every message is
//! encoded, decoded and decided on, nothing is executed. `cargo bench -p hvd-simulate --bench
//! negotiation`.

#![expect(missing_docs, reason = "criterion's macros make functions without any")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hvd_simulate::{SimulatedJob, Wiring, simulate};

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("four steps");
    group.sample_size(10);
    for ranks in [2, 8, 64] {
        group.throughput(Throughput::Elements(ranks as u64));
        for wiring in [Wiring::Star, Wiring::Tree] {
            let id = BenchmarkId::new(format!("{wiring:?}"), ranks);
            let job = SimulatedJob::new(ranks, wiring);
            group.bench_function(id, |bencher| bencher.iter(|| simulate(&job, 4, || {})));
        }
    }
    group.finish();
}

criterion_group!(negotiation, steps);
criterion_main!(negotiation);
