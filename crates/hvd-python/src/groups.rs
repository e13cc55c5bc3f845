//! Groups of operations that start together or not at all.

#![expect(
    clippy::too_many_arguments,
    reason = "these are the signatures Python calls"
)]

use hvd_engine::Submission;
use hvd_types::{OpKind, ReduceOp};
use pyo3::prelude::*;

use crate::collectives::TensorArguments;
use crate::error::{Error, Result};
use crate::session;
use crate::tensor::target;

/// Reduces several tensors over all ranks.
#[pyfunction]
pub(crate) fn grouped_allreduce(
    name: Option<String>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    dtypes: Vec<u8>,
    shapes: Vec<Vec<u64>>,
    op: u8,
    prescale: f64,
    postscale: f64,
    process_set: u32,
) -> PyResult<Vec<u64>> {
    let reduce_op = ReduceOp::try_from(op).map_err(Error::from)?;
    let mut submissions = Vec::with_capacity(inputs.len());
    for (input, output) in tensors(inputs, dtypes, shapes, process_set).zip(outputs) {
        let input = input?;
        let target = target(output, input.dtype, &input.shape);
        submissions.push(Submission {
            target,
            reduce_op,
            prescale,
            postscale,
            ..input.submission(OpKind::Allreduce)
        });
    }
    submit(name, submissions)
}

/// Joins the rows of all ranks, for several tensors.
#[pyfunction]
pub(crate) fn grouped_allgather(
    name: Option<String>,
    inputs: Vec<usize>,
    dtypes: Vec<u8>,
    shapes: Vec<Vec<u64>>,
    process_set: u32,
) -> PyResult<Vec<u64>> {
    let submissions = tensors(inputs, dtypes, shapes, process_set)
        .map(|input| Ok(input?.submission(OpKind::Allgather)))
        .collect::<Result<_>>()?;
    submit(name, submissions)
}

/// Reduces several tensors and gives each rank its share of the rows.
#[pyfunction]
pub(crate) fn grouped_reducescatter(
    name: Option<String>,
    inputs: Vec<usize>,
    dtypes: Vec<u8>,
    shapes: Vec<Vec<u64>>,
    op: u8,
    prescale: f64,
    postscale: f64,
    process_set: u32,
) -> PyResult<Vec<u64>> {
    let reduce_op = ReduceOp::try_from(op).map_err(Error::from)?;
    let submission = |input: Result<TensorArguments>| {
        Ok(Submission {
            reduce_op,
            prescale,
            postscale,
            ..input?.submission(OpKind::Reducescatter)
        })
    };
    let submissions = tensors(inputs, dtypes, shapes, process_set)
        .map(submission)
        .collect::<Result<_>>()?;
    submit(name, submissions)
}

fn tensors(
    inputs: Vec<usize>,
    dtypes: Vec<u8>,
    shapes: Vec<Vec<u64>>,
    process_set: u32,
) -> impl Iterator<Item = Result<TensorArguments>> {
    let described = inputs.into_iter().zip(dtypes).zip(shapes);
    described.map(move |((address, dtype), shape)| {
        TensorArguments::new(None, address, dtype, shape, process_set)
    })
}

fn submit(name: Option<String>, submissions: Vec<Submission>) -> PyResult<Vec<u64>> {
    let session = session::current()?;
    let handles = session
        .engine
        .submit_group(name.map(Into::into), submissions)
        .map_err(Error::from)?;
    Ok(handles.into_iter().map(|handle| handle.0).collect())
}
