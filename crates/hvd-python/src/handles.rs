//! Handles from Python's side: poll, wait, and what the engine allocated.

use std::sync::Arc;
use std::time::Duration;

use hvd_engine::{Buffer, Completion, Handle, OperationOutput, OperationProgress};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::Error;
use crate::session::{self, WorkerSession};

/// How long a wait goes on before Python may handle a signal such as Ctrl-C. Completion ends the
/// wait at once; this does not delay it.
pub(crate) const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// A result that the engine allocated.
#[pyclass(frozen, name = "Output", module = "horovod._core")]
pub(crate) struct AllocatedOutput {
    memory: Buffer,
    shape: Vec<u64>,
    received_splits: Vec<u64>,
}

#[pymethods]
impl AllocatedOutput {
    #[getter]
    fn address(&self) -> usize {
        self.memory.as_slice().as_ptr().expose_provenance()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.memory.as_slice().len()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    #[getter]
    fn received_splits(&self) -> Vec<u64> {
        self.received_splits.clone()
    }
}

/// Whether the operation has ended.
#[pyfunction]
pub(crate) fn poll(handle: u64) -> PyResult<bool> {
    let found = session::with_current(|session| {
        let completion = session.engine.completion(Handle(handle))?;
        Some(session.engine.poll(&completion))
    });
    let of_last = || {
        let completion = session::with_last_handles(|last| last.completion(Handle(handle)));
        completion.flatten().map(|completion| completion.is_done())
    };
    let found = found.ok().flatten().or_else(of_last);
    Ok(found.ok_or(Error::UnknownHandle(handle))?)
}

/// Waits for an operation and forgets its handle.
#[pyfunction]
pub(crate) fn wait(py: Python<'_>, handle: u64) -> PyResult<Option<AllocatedOutput>> {
    Ok(output(wait_and_forget(py, handle)?))
}

/// An operation that has ended costs one look into the table and no release of the GIL.
pub(crate) fn wait_and_forget(py: Python<'_>, handle: u64) -> PyResult<OperationOutput> {
    let found = session::with_current(|session| {
        let progress = session.engine.progress(Handle(handle))?;
        Some(match progress {
            OperationProgress::Ended(result) => Ok(result),
            OperationProgress::UnderWay(completion) => Err((Arc::clone(session), completion)),
        })
    });
    let Some(found) = found.ok().flatten() else {
        return wait_after_shutdown(py, handle);
    };
    let result = match found {
        Ok(result) => result,
        Err((session, completion)) => {
            let result = until_done(py, &session, &completion)?;
            session.engine.forget(Handle(handle));
            result
        }
    };
    Ok(result.map_err(Error::from)?)
}

/// Waits for an operation of the session before, which has been shut down since: what had not ended
/// by then fails because of that.
fn wait_after_shutdown(py: Python<'_>, handle: u64) -> PyResult<OperationOutput> {
    let progress = session::with_last_handles(|last| last.progress(Handle(handle)));
    let result = match progress.flatten().ok_or(Error::UnknownHandle(handle))? {
        OperationProgress::Ended(result) => result,
        OperationProgress::UnderWay(completion) => loop {
            // The engine is about to end, and everything with it.
            if let Some(result) = py.detach(|| completion.wait(SIGNAL_CHECK)) {
                session::with_last_handles(|last| last.forget(Handle(handle)));
                break result;
            }
            py.check_signals()?;
        },
    };
    Ok(result.map_err(Error::from)?)
}

/// Waits for something that has no handle.
pub(crate) fn wait_for(py: Python<'_>, completion: &Completion) -> PyResult<OperationOutput> {
    let session = session::current()?;
    Ok(until_done(py, &session, completion)?.map_err(Error::from)?)
}

/// Waits without the GIL; an error is a signal's exception, after which the wait may be resumed.
fn until_done(
    py: Python<'_>,
    session: &WorkerSession,
    completion: &Completion,
) -> PyResult<hvd_engine::Result<OperationOutput>> {
    loop {
        if let Some(result) = py.detach(|| session.engine.wait(completion, SIGNAL_CHECK)) {
            return Ok(result);
        }
        py.check_signals()?;
    }
}

fn output(outcome: OperationOutput) -> Option<AllocatedOutput> {
    let OperationOutput {
        output,
        shape,
        received_splits,
        ..
    } = outcome;
    let memory = output?;
    Some(AllocatedOutput {
        memory,
        shape: shape.dimensions().to_vec(),
        received_splits,
    })
}
