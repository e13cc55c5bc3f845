//! From a submission to its completion on a rank that is alone: the queue, the wake-up, the cycle
//! and the handle, without a rank to wait for. `cargo bench -p hvd-engine --bench queue`.

#![expect(missing_docs, reason = "criterion's macros make functions without any")]
#![expect(
    clippy::expect_used,
    reason = "a bench that cannot run says why and ends"
)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hvd_engine::{Engine, EngineOptions, Handle, Submission, TensorSource};
use hvd_transport::testing::{Wire, mesh_of};
use hvd_types::{DType, OpKind, Shape};

const LIMIT: Duration = Duration::from_secs(10);

fn engine() -> Engine {
    let mesh = mesh_of(Wire::Memory, 1).pop().expect("a rank");
    let options = EngineOptions::default();
    Engine::start(mesh.transport, mesh.topology, &options, |_, _| {}).expect("an engine")
}

fn start(engine: &Engine, index: usize) -> Handle {
    let source = TensorSource::owned(vec![0; 16]);
    let tensor = Submission::new(OpKind::Allreduce, DType::Float32, Shape::new([4]), source);
    let named = Submission {
        name: Some(format!("tensor.{index}").into()),
        ..tensor
    };
    engine.submit(named).expect("a place in the queue")
}

fn finish(engine: &Engine, handle: Handle) {
    let completion = engine.completion(handle).expect("a live handle");
    engine.forget(handle);
    let outcome = completion.wait(LIMIT).expect("an end");
    drop(outcome.expect("a result"));
}

fn operations(criterion: &mut Criterion) {
    let engine = engine();
    let mut group = criterion.benchmark_group("queue");
    group.bench_function("one, waited for", |bencher| {
        bencher.iter(|| finish(&engine, start(&engine, 0)));
    });
    group.throughput(Throughput::Elements(200));
    group.bench_function("200, then waited for", |bencher| {
        bencher.iter(|| {
            let handles: Vec<Handle> = (0..200).map(|index| start(&engine, index)).collect();
            for handle in handles {
                finish(&engine, handle);
            }
        });
    });
    group.finish();
}

criterion_group!(queue, operations);
criterion_main!(queue);
