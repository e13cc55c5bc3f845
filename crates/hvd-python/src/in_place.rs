//! The short way in: operations in place on tensors that describe themselves, in one call from
//! Python. What it does not take, the long way in (`collectives.rs`) takes or refuses.

use std::sync::Arc;

use hvd_engine::Submission;
use hvd_types::{OpKind, ProcessSetId, ReduceOp};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

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

    /// Whether tensors of the class describe themselves, so that there is a short way in.
    #[getter]
    fn usable(&self) -> bool {
        self.exchange.is_some()
    }

    /// Reduces a tensor over all ranks; `None` if this is not for the short way in. `blocking`
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
        prescale: f64,
        postscale: f64,
        process_set: u32,
        blocking: bool,
    ) -> PyResult<Option<u64>> {
        let Some(dense) = self.dense(tensor) else {
            return Ok(None);
        };
        let Some(reduce_op) = reduce_op(op) else {
            return Ok(None);
        };
        let Ok(name) = self.name(name) else {
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
        submit(Submission {
            name,
            target,
            reduce_op,
            prescale,
            postscale,
            process_set: ProcessSetId::new(process_set),
            ..Submission::new(OpKind::Allreduce, dtype, shape, source)
        })
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

    /// The engine's name of an allreduce; an error for what is neither a string nor nothing.
    fn name(&self, given: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
        if given.is_none() {
            return Ok(None);
        }
        let given = given.cast_exact::<PyString>()?;
        let names = self.names.bind(given.py());
        if let Some(known) = names.get_item(given)? {
            return Ok(Some(Arc::clone(&known.cast_exact::<CachedName>()?.get().0)));
        }
        if names.len() >= KNOWN_NAMES {
            names.clear();
        }
        let name: Arc<str> = format!("allreduce.{given}").into();
        names.set_item(
            given,
            Bound::new(given.py(), CachedName(Arc::clone(&name)))?,
        )?;
        Ok(Some(name))
    }
}

/// A reduction that needs no further checks, unlike Adasum.
fn reduce_op(op: &Bound<'_, PyAny>) -> Option<ReduceOp> {
    let op = op.extract::<u8>().ok()?;
    let op = ReduceOp::try_from(op).ok()?;
    (op != ReduceOp::Adasum).then_some(op)
}
