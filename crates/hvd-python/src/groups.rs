//! Groups of operations that start together or not at all.

#![expect(
    clippy::too_many_arguments,
    reason = "these are the signatures Python calls"
)]

use std::sync::Arc;

use hvd_engine::Submission;
use hvd_types::{OpKind, ProcessSetId};
use pyo3::prelude::*;

use crate::arguments::{
    ReductionArguments, TensorArguments, check_scatter, group_name, process_set as number,
};
use crate::error::{Error, Result};
use crate::session;
use crate::tensor::target;

/// Reduces several tensors over all ranks.
#[pyfunction]
pub(crate) fn grouped_allreduce(
    name: &Bound<'_, PyAny>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    dtypes: Vec<u8>,
    shapes: Vec<Vec<u64>>,
    op: &Bound<'_, PyAny>,
    prescale: &Bound<'_, PyAny>,
    postscale: &Bound<'_, PyAny>,
    process_set: &Bound<'_, PyAny>,
) -> PyResult<Vec<u64>> {
    let reduction = ReductionArguments::new(op, prescale, postscale)?;
    let name = group_name(OpKind::Allreduce, name)?;
    let process_set = number(process_set)?;
    let mut submissions = Vec::with_capacity(inputs.len());
    for (input, output) in tensors(inputs, dtypes, shapes, process_set).zip(outputs) {
        let input = input?;
        let target = target(output, input.dtype, &input.shape);
        submissions.push(reduction.apply(Submission {
            target,
            ..input.submission(OpKind::Allreduce)
        }));
    }
    submit(name, submissions)
}

/// Joins the rows of all ranks, for several tensors.
#[pyfunction]
pub(crate) fn grouped_allgather(
    name: &Bound<'_, PyAny>,
    inputs: Vec<usize>,
    dtypes: Vec<u8>,
    shapes: Vec<Vec<u64>>,
    process_set: &Bound<'_, PyAny>,
) -> PyResult<Vec<u64>> {
    let name = group_name(OpKind::Allgather, name)?;
    let process_set = number(process_set)?;
    let submissions = tensors(inputs, dtypes, shapes, process_set)
        .map(|input| Ok(input?.submission(OpKind::Allgather)))
        .collect::<Result<_>>()?;
    submit(name, submissions)
}

/// Reduces several tensors and gives each rank its share of the rows.
#[pyfunction]
pub(crate) fn grouped_reducescatter(
    name: &Bound<'_, PyAny>,
    inputs: Vec<usize>,
    dtypes: Vec<u8>,
    shapes: Vec<Vec<u64>>,
    op: &Bound<'_, PyAny>,
    prescale: &Bound<'_, PyAny>,
    postscale: &Bound<'_, PyAny>,
    process_set: &Bound<'_, PyAny>,
) -> PyResult<Vec<u64>> {
    let reduction = ReductionArguments::new(op, prescale, postscale)?;
    for shape in &shapes {
        check_scatter(shape)?;
    }
    let name = group_name(OpKind::Reducescatter, name)?;
    let process_set = number(process_set)?;
    let submissions = tensors(inputs, dtypes, shapes, process_set)
        .map(|input| Ok(reduction.apply(input?.submission(OpKind::Reducescatter))))
        .collect::<Result<_>>()?;
    submit(name, submissions)
}

fn tensors(
    inputs: Vec<usize>,
    dtypes: Vec<u8>,
    shapes: Vec<Vec<u64>>,
    process_set: ProcessSetId,
) -> impl Iterator<Item = Result<TensorArguments>> {
    let described = inputs.into_iter().zip(dtypes).zip(shapes);
    described.map(move |((address, dtype), shape)| {
        TensorArguments::new(address, dtype, shape, process_set)
    })
}

fn submit(name: Option<Arc<str>>, submissions: Vec<Submission>) -> PyResult<Vec<u64>> {
    let session = session::current()?;
    let handles = session
        .engine
        .submit_group(name, submissions)
        .map_err(Error::from)?;
    Ok(handles.into_iter().map(|handle| handle.0).collect())
}
