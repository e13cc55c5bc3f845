//! Operations of MXNet's engine: arguments as Python has them become a pushed operation.

#![expect(
    clippy::too_many_arguments,
    reason = "these are the signatures Python calls"
)]

use hvd_mxnet::{CollectiveCall, EngineType, Target};
use hvd_types::{OpKind, Rank};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arguments::{ReductionArguments, process_set as number, text};
use crate::error::Error;
use crate::handles::SIGNAL_CHECK;

/// Looks up the functions of the MXNet that this process has loaded; returns its version.
#[pyfunction]
pub(crate) fn mxnet_load(path: &str, naive: bool) -> PyResult<i32> {
    let engine = if naive {
        EngineType::Naive
    } else {
        EngineType::Threaded
    };
    Ok(hvd_mxnet::load(path, engine).map_err(Error::from)?)
}

/// What both functions below take, as Python passes it.
struct Arguments<'a, 'py> {
    kind: &'a str,
    name: &'a Bound<'py, PyAny>,
    grouped: bool,
    reduction: ReductionArguments,
    root: u32,
    splits: Vec<u64>,
    process_set: &'a Bound<'py, PyAny>,
    priority: i32,
}

impl Arguments<'_, '_> {
    fn operation(self) -> PyResult<CollectiveCall> {
        let kind = OpKind::ALL.into_iter().find(|it| it.name() == self.kind);
        let unknown = || PyValueError::new_err(format!("`{}` is no operation", self.kind));
        let (reduce_op, prescale, postscale) = self.reduction.parts();
        Ok(CollectiveCall {
            kind: kind.ok_or_else(unknown)?,
            name: text(self.name)?,
            grouped: self.grouped,
            reduce_op,
            prescale,
            postscale,
            root: Rank::new(self.root),
            splits: self.splits,
            process_set: number(self.process_set)?,
            priority: self.priority,
        })
    }
}

/// Pushes an operation whose results have the shapes of its inputs.
#[pyfunction]
pub(crate) fn mxnet_start(
    py: Python<'_>,
    kind: &str,
    name: &Bound<'_, PyAny>,
    grouped: bool,
    inputs: Vec<usize>,
    in_place: bool,
    op: &Bound<'_, PyAny>,
    prescale: &Bound<'_, PyAny>,
    postscale: &Bound<'_, PyAny>,
    root: u32,
    process_set: &Bound<'_, PyAny>,
    priority: i32,
) -> PyResult<Vec<usize>> {
    let arguments = Arguments {
        kind,
        name,
        grouped,
        reduction: ReductionArguments::new(op, prescale, postscale)?,
        root,
        splits: Vec::new(),
        process_set,
        priority,
    };
    let operation = arguments.operation()?;
    let target = if in_place {
        Target::InPlace
    } else {
        Target::New
    };
    // MXNet may run operations inside of this call (MXNET_ENGINE_TYPE=NaiveEngine).
    let outputs = py.detach(move || hvd_mxnet::start(operation, &inputs, target));
    Ok(outputs.map_err(Error::from)?)
}

/// Pushes an operation whose results have a length of their own, and waits for them.
#[pyfunction]
pub(crate) fn mxnet_run(
    py: Python<'_>,
    kind: &str,
    name: &Bound<'_, PyAny>,
    grouped: bool,
    inputs: Vec<usize>,
    op: &Bound<'_, PyAny>,
    prescale: &Bound<'_, PyAny>,
    postscale: &Bound<'_, PyAny>,
    splits: Vec<u64>,
    process_set: &Bound<'_, PyAny>,
    priority: i32,
) -> PyResult<(Vec<usize>, Vec<u64>)> {
    let arguments = Arguments {
        kind,
        name,
        grouped,
        reduction: ReductionArguments::new(op, prescale, postscale)?,
        root: 0,
        splits,
        process_set,
        priority,
    };
    let operation = arguments.operation()?;
    let started = py.detach(move || hvd_mxnet::run(operation, &inputs));
    let mut pending = started.map_err(Error::from)?;
    loop {
        if let Some(result) = py.detach(|| pending.wait(SIGNAL_CHECK)) {
            let outputs = result.map_err(Error::from)?;
            return Ok((outputs.arrays, outputs.received_splits));
        }
        py.check_signals()?;
    }
}
