//! Jobs for tests: a mesh, an engine per rank, and a thread per rank that uses it.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use hvd_engine::{
    Engine, EngineOptions, ExitReport, Handle, OperationOutput, Result, SetChange, Submission,
    TensorSource,
};
use hvd_testkit::run_ranks_with;
use hvd_transport::testing::{Wire, mesh_of};
use hvd_transport::{Abort, Failure, Mesh};
use hvd_types::{DType, OpKind, ProcessSetId, Rank, Shape, Topology};

/// Makes tests, over every wire, of functions that take one.
macro_rules! over_every_wire {
    ($($test:ident),+ $(,)?) => {
        over_every_wire!(@wire memory, Memory, $($test),+);
        over_every_wire!(@wire shared_memory, SharedMemory, $($test),+);
        over_every_wire!(@wire tcp, Tcp, $($test),+);
        over_every_wire!(@wire mixed, Mixed, $($test),+);
    };
    (@wire $module:ident, $wire:ident, $($test:ident),+) => {
        mod $module {
            use hvd_transport::testing::Wire;
            $(
                #[test]
                fn $test() {
                    super::$test(Wire::$wire);
                }
            )+
        }
    };
}

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

    pub(crate) fn finish(&self, handle: Handle) -> Result<OperationOutput> {
        let completion = self.engine.completion(handle).expect("a live handle");
        self.engine.forget(handle);
        self.engine
            .wait(&completion, hvd_testkit::DEADLINE)
            .expect("completion before the deadline")
    }

    /// Asks for a change of the process sets and returns the set's number.
    pub(crate) fn change(&self, change: SetChange) -> Result<ProcessSetId> {
        let completion = self.engine.change_process_sets(change)?;
        let outcome = completion
            .wait(hvd_testkit::DEADLINE)
            .expect("a response list before the deadline");
        Ok(ProcessSetId::new(outcome?.number.expect("a number")))
    }

    pub(crate) fn call(&self, submission: Submission) -> Result<OperationOutput> {
        self.finish(self.engine.submit_quietly(submission)?)
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
    wire: Wire,
    size: usize,
    body: impl Fn(&Job) -> T + Send + Sync + 'static,
) -> Vec<T> {
    run_with(wire, size, &EngineOptions::default(), body)
}

pub(crate) fn run_with<T: Send + 'static>(
    wire: Wire,
    size: usize,
    options: &EngineOptions,
    body: impl Fn(&Job) -> T + Send + Sync + 'static,
) -> Vec<T> {
    run_meshes(mesh_of(wire, size), options, body)
}

pub(crate) fn run_meshes<T: Send + 'static>(
    meshes: Vec<Mesh>,
    options: &EngineOptions,
    body: impl Fn(&Job) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let options = options.clone();
    run_ranks_with(meshes, move |_, mesh| {
        let job = job(mesh, &options);
        let result = body(&job);
        // A rank that leaves ends the job for all, so none leaves before the others are done. It
        // fails if the test itself has ended the job.
        let _ = job.call(Submission::barrier(ProcessSetId::GLOBAL));
        result
    })
}

/// As [`run_with`], on ranks that believe to be on the named hosts.
pub(crate) fn run_on_hosts<T: Send + 'static>(
    wire: Wire,
    hosts: &[&str],
    options: &EngineOptions,
    body: impl Fn(&Job) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let mut meshes = mesh_of(wire, hosts.len());
    for mesh in &mut meshes {
        mesh.topology = Topology::new(hosts.iter().copied());
    }
    run_meshes(meshes, options, body)
}

/// As [`run`], but the rank `victim` dies instead of taking part. Results are the survivors'.
pub(crate) fn run_until_death<T: Send + 'static>(
    wire: Wire,
    size: usize,
    victim: Rank,
    body: impl Fn(&Job) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let meshes = mesh_of(wire, size);
    let aborts: Vec<Abort> = meshes.iter().map(|mesh| mesh.abort.clone()).collect();
    let results = run_ranks_with(meshes, move |rank, mesh| {
        if rank != victim {
            return Some(body(&job(mesh, &EngineOptions::default())));
        }
        match mesh.lifeline {
            Some(lifeline) => lifeline.sever(),
            // Queues in memory have no connection that could break.
            None => aborts.iter().for_each(|abort| {
                abort.raise(Failure {
                    rank,
                    host: "localhost".into(),
                    reason: "died".into(),
                });
            }),
        }
        None
    });
    results.into_iter().flatten().collect()
}

/// As [`run`], but `fail` makes every rank believe that the rank `victim` has died.
pub(crate) fn run_with_failure<T: Send + 'static>(
    wire: Wire,
    size: usize,
    victim: Rank,
    body: impl Fn(&Job, &dyn Fn()) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let meshes = mesh_of(wire, size);
    let aborts: Vec<Abort> = meshes.iter().map(|mesh| mesh.abort.clone()).collect();
    let fail = move || {
        for abort in &aborts {
            abort.raise(Failure {
                rank: victim,
                host: "localhost".into(),
                reason: "died".into(),
            });
        }
    };
    run_ranks_with(meshes, move |_, mesh| {
        body(&job(mesh, &EngineOptions::default()), &fail)
    })
}

fn job(mesh: Mesh, options: &EngineOptions) -> Job {
    let Mesh {
        transport,
        lifeline,
        topology,
        ..
    } = mesh;
    let rank = transport.rank();
    let on_exit = move |end, transport| {
        if let (ExitReport::Failed(failure), Some(lifeline)) = (end, &lifeline) {
            lifeline.report(failure);
        }
        drop((transport, lifeline));
    };
    Job {
        rank,
        engine: Engine::start(transport, topology, options, on_exit).unwrap(),
    }
}

pub(crate) fn source(values: &[f32]) -> TensorSource {
    TensorSource::owned(
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

pub(crate) fn floats(outcome: &OperationOutput) -> Vec<f32> {
    let bytes = outcome
        .output
        .as_ref()
        .map_or(&[][..], |buffer| buffer.as_slice());
    bytes
        .chunks_exact(4)
        .map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap()))
        .collect()
}
