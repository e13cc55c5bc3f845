//! The arguments that all operations have in common, checked in one place for every entry point:
//! one call for an ordinary tensor (`in_place.rs`), one tensor (`collectives.rs`), a group
//! (`groups.rs`).
//!
//! Owns the rules for names, reductions, scaling factors and process sets. Must not know what an
//! operation does with them, or submit anything.

use std::sync::Arc;

use hvd_engine::{Submission, TensorSource};
use hvd_types::{DType, OpKind, ProcessSetId, ReduceOp, Shape};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyString};

use crate::error::{Error, Result};
use crate::tensor::source;

/// The engine's name of a tensor: the operation, then the name that was given. `None` asks the
/// engine for an automatic name.
pub(crate) fn tensor_name(kind: OpKind, given: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
    let text = text(given)?;
    Ok(text.map(|text| format!("{kind}.{text}").into()))
}

/// The engine's name of a group, as [`tensor_name`].
pub(crate) fn group_name(kind: OpKind, given: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
    let text = text(given)?;
    Ok(text.map(|text| format!("grouped_{kind}.{text}").into()))
}

/// A name as text. Objects that are no strings are formatted as in an f-string.
pub(crate) fn text(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if given.is_none() {
        return Ok(None);
    }
    if let Ok(string) = given.cast_exact::<PyString>() {
        return string.extract().map(Some);
    }
    given.call_method1("__format__", ("",))?.extract().map(Some)
}

/// How elements are reduced and scaled.
#[derive(Clone, Copy)]
pub(crate) struct ReductionArguments {
    pub(crate) op: ReduceOp,
    prescale: f64,
    postscale: f64,
}

impl ReductionArguments {
    pub(crate) fn new(
        op: &Bound<'_, PyAny>,
        prescale: &Bound<'_, PyAny>,
        postscale: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            op: reduce_op(op)?,
            prescale: factor(prescale)?,
            postscale: factor(postscale)?,
        })
    }

    /// Reduction, prescale and postscale factor.
    pub(crate) fn parts(self) -> (ReduceOp, f64, f64) {
        (self.op, self.prescale, self.postscale)
    }

    /// The submission with this reduction.
    pub(crate) fn apply(self, submission: Submission) -> Submission {
        let Self {
            op: reduce_op,
            prescale,
            postscale,
        } = self;
        Submission {
            reduce_op,
            prescale,
            postscale,
            ..submission
        }
    }
}

/// A reduction by its number.
fn reduce_op(given: &Bound<'_, PyAny>) -> PyResult<ReduceOp> {
    let number = given.extract::<u8>().ok();
    if let Some(op) = number.and_then(|number| ReduceOp::try_from(number).ok()) {
        return Ok(op);
    }
    Err(Error::UnknownReduction(given.repr()?.to_string()).into())
}

/// A scaling factor: a number, or whatever else Python's `float` accepts.
fn factor(given: &Bound<'_, PyAny>) -> PyResult<f64> {
    if let Ok(number) = given.cast_exact::<PyFloat>() {
        return Ok(number.value());
    }
    let number = given.py().get_type::<PyFloat>().call1((given,))?;
    number.extract()
}

/// What Python knows about process sets.
struct PythonProcessSets {
    global: Py<PyAny>,
    /// Returns the number of a registered set, and raises for anything else.
    usable_id: Py<PyAny>,
}

static PROCESS_SETS: PyOnceLock<PythonProcessSets> = PyOnceLock::new();

/// The number of a process set. The global one, which is the rule, costs no call of Python.
pub(crate) fn process_set(given: &Bound<'_, PyAny>) -> PyResult<ProcessSetId> {
    let py = given.py();
    let sets = PROCESS_SETS.get_or_try_init(py, || -> PyResult<_> {
        let module = py.import("horovod.common.process_sets")?;
        Ok(PythonProcessSets {
            global: module.getattr("global_process_set")?.unbind(),
            usable_id: module.getattr("usable_id")?.unbind(),
        })
    })?;
    if given.is(&sets.global) {
        return Ok(ProcessSetId::GLOBAL);
    }
    let number = sets.usable_id.bind(py).call1((given,))?;
    number.extract().map(ProcessSetId::new)
}

/// A tensor as it comes from Python, with the process set that it is for.
pub(crate) struct TensorArguments {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    source: TensorSource,
    process_set: ProcessSetId,
}

impl TensorArguments {
    pub(crate) fn new(
        address: usize,
        dtype: u8,
        shape: Vec<u64>,
        process_set: ProcessSetId,
    ) -> Result<Self> {
        let dtype = DType::try_from(dtype)?;
        let shape = Shape::new(shape);
        let source = source(address, dtype, &shape);
        Ok(Self {
            dtype,
            shape,
            source,
            process_set,
        })
    }

    /// The submission of an operation on this tensor, with default options.
    pub(crate) fn submission(self, kind: OpKind) -> Submission {
        let Self {
            dtype,
            shape,
            source,
            process_set,
        } = self;
        Submission {
            process_set,
            ..Submission::new(kind, dtype, shape, source)
        }
    }
}

/// Refuses a tensor without rows to share out.
pub(crate) fn check_scatter(shape: &[u64]) -> Result<()> {
    if shape.is_empty() {
        return Err(Error::ScalarScatter);
    }
    Ok(())
}
