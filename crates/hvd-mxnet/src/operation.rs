//! What is asked of the ranks, with whatever arrays, and the names under which they meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hvd_engine::{OperationOutput, Submission, TensorSource, current_worker};
use hvd_types::{DType, OpKind, ProcessSetId, Rank, ReduceOp, Shape};

use crate::error::{Error, Result};

/// Counts the operations without a name, of all kinds.
static UNNAMED: AtomicU64 = AtomicU64::new(0);

/// What is done with the results of all arrays.
pub(crate) type WhenEnded = Box<dyn FnOnce(Result<Vec<OperationOutput>>) + Send>;

/// A collective operation without its arrays. Fields that a kind does not use keep their defaults.
#[derive(Debug)]
pub struct CollectiveCall {
    /// Which one.
    pub kind: OpKind,
    /// The name that was given, if one was.
    pub name: Option<String>,
    /// Whether the arrays are a group, even if it has one member only.
    pub grouped: bool,
    /// How elements are reduced.
    pub reduce_op: ReduceOp,
    /// Factor before the reduction.
    pub prescale: f64,
    /// Factor after the reduction.
    pub postscale: f64,
    /// The rank whose data a broadcast spreads.
    pub root: Rank,
    /// Rows for each rank, for an alltoall; empty for equal parts.
    pub splits: Vec<u64>,
    /// The process set.
    pub process_set: ProcessSetId,
    /// Which of several operations that are ready MXNet starts first: the highest.
    pub priority: i32,
}

impl CollectiveCall {
    /// The name by which ranks know this call.
    pub(crate) fn full_name(&self) -> Arc<str> {
        let kind = self.kind;
        if let Some(name) = &self.name {
            return format!("horovod_{kind}.{name}").into();
        }
        let number = UNNAMED.fetch_add(1, Ordering::Relaxed) + 1;
        format!("horovod_{kind}.noname.{number}").into()
    }

    /// The submission of one array. The engine allocates its result.
    pub(crate) fn submission(
        &self,
        name: &Arc<str>,
        (dtype, shape): (DType, Shape),
        source: TensorSource,
    ) -> Submission {
        Submission {
            name: Some(Arc::clone(name)),
            reduce_op: self.reduce_op,
            prescale: self.prescale,
            postscale: self.postscale,
            root: self.root,
            splits: self.splits.clone(),
            process_set: self.process_set,
            ..Submission::new(self.kind, dtype, shape, source)
        }
    }

    /// Hands arrays, which are ready now, to the engine. `then` is called once, when all of them
    /// have ended.
    pub(crate) fn submit(
        &self,
        name: &Arc<str>,
        submissions: Result<Vec<Submission>>,
        then: WhenEnded,
    ) {
        let worker = current_worker().map_err(Error::from);
        let (worker, mut submissions) = match worker.and_then(|it| Ok((it, submissions?))) {
            Ok(prepared) => prepared,
            Err(error) => return then(Err(error)),
        };
        let engine = worker.engine();
        match (self.grouped, submissions.pop()) {
            (false, Some(submission)) => engine.submit_with_callback(submission, move |result| {
                then(result.map(|outcome| vec![outcome]).map_err(Error::from));
            }),
            (_, last) => {
                submissions.extend(last);
                engine.submit_group_with_callback(name, submissions, move |result| {
                    then(result.map_err(Error::from));
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: Option<&str>) -> Arc<str> {
        let operation = CollectiveCall {
            kind: OpKind::Allreduce,
            name: name.map(str::to_owned),
            grouped: false,
            reduce_op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            root: Rank::COORDINATOR,
            splits: Vec::new(),
            process_set: ProcessSetId::GLOBAL,
            priority: 0,
        };
        operation.full_name()
    }

    #[test]
    fn names_are_those_of_upstream() {
        assert_eq!(&*named(Some("weight")), "horovod_allreduce.weight");
        let (first, second) = (named(None), named(None));
        assert!(first.starts_with("horovod_allreduce.noname."), "{first}");
        assert_ne!(first, second);
    }
}
