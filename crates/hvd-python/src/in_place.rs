//! The fast path: operations in place on tensors that describe themselves, in one call from Python.
//! What it does not take, `collectives.rs` takes or refuses; `arguments.rs` has the rules for both.

use std::sync::Arc;

use hvd_engine::Submission;
use hvd_types::{OpKind, ReduceOp};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use crate::arguments::{ReductionArguments, process_set as number, tensor_name};
use crate::collectives::{submit, submit_quietly};
use crate::tensor::dlpack::{DenseTensor, DlpackExchange};
use crate::tensor::{source, target};

/// Names that are kept ready. A program that counts its steps in its names never repeats one.
const KNOWN_NAMES: usize = 8192;

/// Starts operations in place on the tensors of one class.
#[pyclass(frozen, module = "horovod._core")]
pub(crate) struct InPlace {
    exchange: Option<DlpackExchange>,
    /// The class, and subclasses whose tensors are no different.
    classes: Vec<Py<PyType>>,
    /// Whether a tensor's memory does not hold what the tensor shows.
    is_disguised: Py<PyAny>,
    /// The engine's names, by the names that Python gives.
    names: Py<PyDict>,
}

/// A name as the engine knows it.
#[pyclass(frozen)]
struct CachedName(Arc<str>);

#[pymethods]
impl InPlace {
    #[new]
    fn new(classes: Vec<Bound<'_, PyType>>, is_disguised: Bound<'_, PyAny>) -> PyResult<Self> {
        let first = classes.first();
        let exchange = first.map(DlpackExchange::of).transpose()?.flatten();
        Ok(Self {
            exchange,
            classes: classes.into_iter().map(Bound::unbind).collect(),
            names: PyDict::new(is_disguised.py()).unbind(),
            is_disguised: is_disguised.unbind(),
        })
    }

    /// Whether tensors of the class describe themselves, so that there is a fast path.
    #[getter]
    fn usable(&self) -> bool {
        self.exchange.is_some()
    }

    /// Reduces a tensor over all ranks; `None` if this is not for the fast path. `blocking`
    /// promises that the caller waits at once, so that no other thread has to be woken.
    #[pyo3(signature = (tensor, name, op, prescale, postscale, process_set, blocking=false))]
    #[expect(
        clippy::too_many_arguments,
        reason = "this is the signature Python calls"
    )]
    fn allreduce(
        &self,
        tensor: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        op: &Bound<'_, PyAny>,
        prescale: &Bound<'_, PyAny>,
        postscale: &Bound<'_, PyAny>,
        process_set: &Bound<'_, PyAny>,
        blocking: bool,
    ) -> PyResult<Option<u64>> {
        let reduction = ReductionArguments::new(op, prescale, postscale)?;
        // Python has more to check about it, and about its ranks.
        if reduction.op == ReduceOp::Adasum {
            return Ok(None);
        }
        let name = self.name(name)?;
        let process_set = number(process_set)?;
        // Last: none of Python's code may run between the description of a tensor and its use.
        let Some(dense) = self.dense(tensor) else {
            return Ok(None);
        };
        let DenseTensor {
            address,
            dtype,
            shape,
        } = dense;
        let source = source(address, dtype, &shape);
        let target = target(address, dtype, &shape);
        let submit = if blocking { submit_quietly } else { submit };
        submit(reduction.apply(Submission {
            name,
            target,
            process_set,
            ..Submission::new(OpKind::Allreduce, dtype, shape, source)
        }))
        .map(Some)
    }
}

impl InPlace {
    fn dense(&self, tensor: &Bound<'_, PyAny>) -> Option<DenseTensor> {
        let exchange = self.exchange.as_ref()?;
        let class = tensor.get_type();
        if !self.classes.iter().any(|known| class.is(known)) {
            return None;
        }
        let dense = exchange.dense(tensor)?;
        self.is_plain(tensor).then_some(dense)
    }

    /// Whether the tensor shows what its memory holds, and not the negative of it.
    fn is_plain(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let answer = self.is_disguised.bind(tensor.py()).call1((tensor,));
        answer.is_ok_and(|answer| answer.is_truthy().is_ok_and(|disguised| !disguised))
    }

    /// The engine's name of an allreduce.
    fn name(&self, given: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
        // Only strings: other objects may be equal and look different.
        if given.cast_exact::<PyString>().is_err() {
            return tensor_name(OpKind::Allreduce, given);
        }
        let names = self.names.bind(given.py());
        if let Some(known) = names.get_item(given)? {
            return Ok(Some(Arc::clone(&known.cast_exact::<CachedName>()?.get().0)));
        }
        let name = tensor_name(OpKind::Allreduce, given)?;
        if let Some(name) = &name {
            if names.len() >= KNOWN_NAMES {
                names.clear();
            }
            names.set_item(given, Bound::new(given.py(), CachedName(Arc::clone(name)))?)?;
        }
        Ok(name)
    }
}
