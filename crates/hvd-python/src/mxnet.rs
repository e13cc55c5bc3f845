//! Operations of MXNet's engine: arguments as Python has them become a pushed operation.

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

/// Pushes an operation. Those whose results have a length of their own are waited for.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "this is what Python calls")]
pub(crate) fn mxnet_collective(
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
    splits: Vec<u64>,
    process_set: &Bound<'_, PyAny>,
    priority: i32,
) -> PyResult<(Vec<usize>, Vec<u64>)> {
    let known = OpKind::ALL.into_iter().find(|it| it.name() == kind);
    let unknown = || PyValueError::new_err(format!("`{kind}` is no operation"));
    let (reduce_op, prescale, postscale) =
        ReductionArguments::new(op, prescale, postscale)?.parts();
    let call = CollectiveCall {
        kind: known.ok_or_else(unknown)?,
        name: text(name)?,
        grouped,
        reduce_op,
        prescale,
        postscale,
        root: Rank::new(root),
        splits,
        process_set: number(process_set)?,
        priority,
    };
    if matches!(call.kind, OpKind::Allreduce | OpKind::Broadcast) {
        let target = if in_place {
            Target::InPlace
        } else {
            Target::New
        };
        // MXNet may run operations inside of this call (MXNET_ENGINE_TYPE=NaiveEngine).
        let outputs = py.detach(move || hvd_mxnet::start(call, &inputs, target));
        return Ok((outputs.map_err(Error::from)?, Vec::new()));
    }
    let pending = py.detach(move || hvd_mxnet::run(call, &inputs));
    let pending = pending.map_err(Error::from)?;
    loop {
        if let Some(result) = py.detach(|| pending.wait(SIGNAL_CHECK)) {
            let outputs = result.map_err(Error::from)?;
            return Ok((outputs.arrays, outputs.received_splits));
        }
        py.check_signals()?;
    }
}
