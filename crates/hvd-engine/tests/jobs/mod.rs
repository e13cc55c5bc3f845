//! Jobs for tests: a mesh, an engine per rank, and a thread per rank that uses it.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use hvd_engine::{Engine, EngineOptions, Handle, Outcome, Result, Source, Submission};
use hvd_testkit::run_ranks_with;
use hvd_transport::{Transport, mem};
use hvd_types::{DType, OpKind, Rank, Shape};

/// One rank of a job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) rank: Rank,
    pub(crate) engine: Engine,
}

impl Job {
    pub(crate) fn start(&self, submission: Submission) -> Result<Handle> {
        self.engine.submit(submission)
    }

    pub(crate) fn finish(&self, handle: Handle) -> Result<Outcome> {
        let completion = self.engine.completion(handle).expect("a live handle");
        self.engine.forget(handle);
        completion
            .wait(hvd_testkit::DEADLINE)
            .expect("completion before the deadline")
    }

    pub(crate) fn call(&self, submission: Submission) -> Result<Outcome> {
        self.finish(self.start(submission)?)
    }

    /// The rank as a number to compute with.
    pub(crate) fn rank_number(&self) -> f32 {
        f32::from(u16::try_from(self.rank.number()).expect("small jobs"))
    }
}

/// Does nothing for a while.
pub(crate) fn pause(time: Duration) {
    let never = (Mutex::new(()), Condvar::new());
    let guard = never.0.lock().unwrap();
    drop(never.1.wait_timeout_while(guard, time, |()| true));
}

/// Runs `body` on every rank of a job of `size` and returns the results by rank.
pub(crate) fn run<T: Send + 'static>(
    size: usize,
    body: impl Fn(&Job) -> T + Send + Sync + 'static,
) -> Vec<T> {
    run_with(size, &EngineOptions::default(), body)
}

pub(crate) fn run_with<T: Send + 'static>(
    size: usize,
    options: &EngineOptions,
    body: impl Fn(&Job) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let options = options.clone();
    run_ranks_with(mem::mesh(size), move |rank, transport| {
        body(&job(rank, Box::new(transport), &options))
    })
}

/// As [`run`], but the rank `victim` dies instead of taking part. Results are the survivors'.
pub(crate) fn run_until_death<T: Send + 'static>(
    size: usize,
    victim: Rank,
    body: impl Fn(&Job) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let results = run_ranks_with(mem::mesh(size), move |rank, transport| {
        if rank == victim {
            transport.die();
            return None;
        }
        Some(body(&job(
            rank,
            Box::new(transport),
            &EngineOptions::default(),
        )))
    });
    results.into_iter().flatten().collect()
}

fn job(rank: Rank, transport: Box<dyn Transport>, options: &EngineOptions) -> Job {
    let hosts = vec!["localhost".to_owned(); transport.size()];
    Job {
        rank,
        engine: Engine::start(transport, hosts, options, |_, _| ()).unwrap(),
    }
}

pub(crate) fn source(values: &[f32]) -> Source {
    Source::owned(
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
    )
}

/// A one-dimensional float32 tensor without a name.
pub(crate) fn tensor(kind: OpKind, values: &[f32]) -> Submission {
    let shape = Shape::new([values.len() as u64]);
    Submission::new(kind, DType::Float32, shape, source(values))
}

pub(crate) fn floats(outcome: &Outcome) -> Vec<f32> {
    let bytes = outcome
        .output
        .as_ref()
        .map_or(&[][..], |buffer| buffer.as_slice());
    bytes
        .chunks_exact(4)
        .map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap()))
        .collect()
}
