//! Operations: arguments as Python has them become a submission. Each returns a handle at once,
//! with the GIL held throughout, because nothing here blocks.

#![expect(
    clippy::too_many_arguments,
    reason = "these are the signatures Python calls"
)]

use std::sync::PoisonError;

use hvd_engine::{Handle, Submission};
use hvd_types::{OpKind, Rank};
use pyo3::prelude::*;

use crate::arguments::{
    ReductionArguments, TensorArguments, check_scatter, process_set as number, tensor_name,
};
use crate::handles::wait_and_forget;
use crate::session;
use crate::tensor::target;

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
    name: &Bound<'_, PyAny>,
    input: usize,
    output: usize,
    dtype: u8,
    shape: Vec<u64>,
    op: &Bound<'_, PyAny>,
    prescale: &Bound<'_, PyAny>,
    postscale: &Bound<'_, PyAny>,
    process_set: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let reduction = ReductionArguments::new(op, prescale, postscale)?;
    let name = tensor_name(OpKind::Allreduce, name)?;
    let input = TensorArguments::new(input, dtype, shape, number(process_set)?)?;
    let target = target(output, input.dtype, &input.shape);
    submit(reduction.apply(Submission {
        name,
        target,
        ..input.submission(OpKind::Allreduce)
    }))
}

/// Joins the rows of all ranks.
#[pyfunction]
pub(crate) fn allgather(
    name: &Bound<'_, PyAny>,
    input: usize,
    dtype: u8,
    shape: Vec<u64>,
    process_set: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let name = tensor_name(OpKind::Allgather, name)?;
    let input = TensorArguments::new(input, dtype, shape, number(process_set)?)?;
    submit(Submission {
        name,
        ..input.submission(OpKind::Allgather)
    })
}

/// Copies the root's tensor to all ranks.
#[pyfunction]
pub(crate) fn broadcast(
    name: &Bound<'_, PyAny>,
    input: usize,
    output: usize,
    dtype: u8,
    shape: Vec<u64>,
    root: u32,
    process_set: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let name = tensor_name(OpKind::Broadcast, name)?;
    let input = TensorArguments::new(input, dtype, shape, number(process_set)?)?;
    let target = target(output, input.dtype, &input.shape);
    submit(Submission {
        name,
        target,
        root: Rank::new(root),
        ..input.submission(OpKind::Broadcast)
    })
}

/// Sends rows from every rank to every rank.
#[pyfunction]
pub(crate) fn alltoall(
    name: &Bound<'_, PyAny>,
    input: usize,
    dtype: u8,
    shape: Vec<u64>,
    splits: Vec<u64>,
    process_set: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let name = tensor_name(OpKind::Alltoall, name)?;
    let input = TensorArguments::new(input, dtype, shape, number(process_set)?)?;
    submit(Submission {
        name,
        splits,
        ..input.submission(OpKind::Alltoall)
    })
}

/// Reduces a tensor over all ranks and gives each its share of the rows.
#[pyfunction]
pub(crate) fn reducescatter(
    name: &Bound<'_, PyAny>,
    input: usize,
    dtype: u8,
    shape: Vec<u64>,
    op: &Bound<'_, PyAny>,
    prescale: &Bound<'_, PyAny>,
    postscale: &Bound<'_, PyAny>,
    process_set: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let reduction = ReductionArguments::new(op, prescale, postscale)?;
    check_scatter(&shape)?;
    let name = tensor_name(OpKind::Reducescatter, name)?;
    let input = TensorArguments::new(input, dtype, shape, number(process_set)?)?;
    submit(reduction.apply(Submission {
        name,
        ..input.submission(OpKind::Reducescatter)
    }))
}

/// Waits, through its handle, until every rank has come here.
#[pyfunction]
pub(crate) fn barrier(process_set: &Bound<'_, PyAny>) -> PyResult<u64> {
    submit(Submission::barrier(number(process_set)?))
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
