//! Operations: arguments as Python has them become a submission. Each returns a handle at once,
//! with the GIL held throughout, because nothing here blocks.

#![expect(
    clippy::too_many_arguments,
    reason = "these are the signatures Python calls"
)]

use std::sync::PoisonError;

use hvd_engine::{Handle, Submission, TensorSource};
use hvd_types::{DType, OpKind, ProcessSetId, Rank, ReduceOp, Shape};
use pyo3::prelude::*;

use crate::error::Result;
use crate::handles::wait_and_forget;
use crate::session;
use crate::tensor::{source, target};

/// A tensor as it comes from Python.
pub(crate) struct TensorArguments {
    name: Option<String>,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    source: TensorSource,
    process_set: ProcessSetId,
}

impl TensorArguments {
    pub(crate) fn new(
        name: Option<String>,
        address: usize,
        dtype: u8,
        shape: Vec<u64>,
        process_set: u32,
    ) -> Result<Self> {
        let dtype = DType::try_from(dtype)?;
        let shape = Shape::new(shape);
        let source = source(address, dtype, &shape);
        Ok(Self {
            name,
            dtype,
            shape,
            source,
            process_set: ProcessSetId::new(process_set),
        })
    }

    pub(crate) fn submission(self, kind: OpKind) -> Submission {
        let Self {
            name,
            dtype,
            shape,
            source,
            process_set,
        } = self;
        Submission {
            name: name.map(Into::into),
            process_set,
            ..Submission::new(kind, dtype, shape, source)
        }
    }
}

/// For a caller who waits at once: no other thread is woken.
pub(crate) fn submit_quietly(submission: Submission) -> PyResult<u64> {
    let handle = session::with_current(|session| session.engine.submit_quietly(submission))?;
    Ok(handle.map_err(crate::error::Error::from)?.0)
}

pub(crate) fn submit(submission: Submission) -> PyResult<u64> {
    let handle = session::with_current(|session| session.engine.submit(submission))?;
    Ok(handle.map_err(crate::error::Error::from)?.0)
}

/// Reduces a tensor over all ranks.
#[pyfunction]
pub(crate) fn allreduce(
    name: Option<String>,
    input: usize,
    output: usize,
    dtype: u8,
    shape: Vec<u64>,
    op: u8,
    prescale: f64,
    postscale: f64,
    process_set: u32,
) -> PyResult<u64> {
    let input = TensorArguments::new(name, input, dtype, shape, process_set)?;
    let target = target(output, input.dtype, &input.shape);
    let reduce_op = ReduceOp::try_from(op).map_err(crate::error::Error::from)?;
    let submission = input.submission(OpKind::Allreduce);
    submit(Submission {
        target,
        reduce_op,
        prescale,
        postscale,
        ..submission
    })
}

/// Joins the rows of all ranks.
#[pyfunction]
pub(crate) fn allgather(
    name: Option<String>,
    input: usize,
    dtype: u8,
    shape: Vec<u64>,
    process_set: u32,
) -> PyResult<u64> {
    let input = TensorArguments::new(name, input, dtype, shape, process_set)?;
    submit(input.submission(OpKind::Allgather))
}

/// Spreads the root's tensor.
#[pyfunction]
pub(crate) fn broadcast(
    name: Option<String>,
    input: usize,
    output: usize,
    dtype: u8,
    shape: Vec<u64>,
    root: u32,
    process_set: u32,
) -> PyResult<u64> {
    let input = TensorArguments::new(name, input, dtype, shape, process_set)?;
    let target = target(output, input.dtype, &input.shape);
    let root = Rank::new(root);
    submit(Submission {
        target,
        root,
        ..input.submission(OpKind::Broadcast)
    })
}

/// Sends rows from every rank to every rank.
#[pyfunction]
pub(crate) fn alltoall(
    name: Option<String>,
    input: usize,
    dtype: u8,
    shape: Vec<u64>,
    splits: Vec<u64>,
    process_set: u32,
) -> PyResult<u64> {
    let input = TensorArguments::new(name, input, dtype, shape, process_set)?;
    submit(Submission {
        splits,
        ..input.submission(OpKind::Alltoall)
    })
}

/// Reduces a tensor over all ranks and gives each its share of the rows.
#[pyfunction]
pub(crate) fn reducescatter(
    name: Option<String>,
    input: usize,
    dtype: u8,
    shape: Vec<u64>,
    op: u8,
    prescale: f64,
    postscale: f64,
    process_set: u32,
) -> PyResult<u64> {
    let input = TensorArguments::new(name, input, dtype, shape, process_set)?;
    let reduce_op = ReduceOp::try_from(op).map_err(crate::error::Error::from)?;
    let submission = input.submission(OpKind::Reducescatter);
    submit(Submission {
        reduce_op,
        prescale,
        postscale,
        ..submission
    })
}

/// Waits, through its handle, until every rank has come here.
#[pyfunction]
pub(crate) fn barrier(process_set: u32) -> PyResult<u64> {
    submit(Submission::barrier(ProcessSetId::new(process_set)))
}

/// Takes part in what others still reduce until every rank has joined; returns the last one. A
/// join that was interrupted goes on; the next call waits for that one.
#[pyfunction]
pub(crate) fn join(py: Python<'_>) -> PyResult<u32> {
    let session = session::current()?;
    let mut joining = session
        .joining
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let handle = match *joining {
        Some(handle) => handle,
        None => submit(Submission::join())?,
    };
    *joining = Some(handle);
    drop(joining);
    let outcome = wait_and_forget(py, handle);
    // An interruption leaves the handle known; anything else ends the join.
    if session.engine.completion(Handle(handle)).is_none() {
        *session
            .joining
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }
    Ok(outcome?.number.unwrap_or_default())
}
