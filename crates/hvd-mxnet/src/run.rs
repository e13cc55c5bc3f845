//! Operations whose results have a length that only the ranks together know: allgather, alltoall
//! and reducescatter. MXNet cannot make an array longer later, so arrays are made when the length is
//! known, and the caller waits for them.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use hvd_engine::{OperationOutput, Submission, TensorTarget};
use hvd_types::{DType, OpKind, Shape};

use crate::error::{Error, Result};
use crate::ffi::{Access, Array, Push, PushCompletion, push};
use crate::operation::CollectiveCall;

/// What such an operation gives back.
#[derive(Debug)]
pub struct Outputs {
    /// Handles of new arrays, which the caller owns.
    pub arrays: Vec<usize>,
    /// Rows received from each rank, after an alltoall.
    pub received_splits: Vec<u64>,
}

/// An operation that goes on, whether it is waited for or not.
#[derive(Debug)]
pub struct PendingRun(Arc<RunResult>);

/// The result, from its arrival until it is taken.
#[derive(Debug, Default)]
struct RunResult {
    result: Mutex<Option<Result<Outputs>>>,
    arrived: Condvar,
}

impl PendingRun {
    /// Waits up to `limit`; `None` if it has not ended by then.
    pub fn wait(&self, limit: Duration) -> Option<Result<Outputs>> {
        let result = self.0.result.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .0
            .arrived
            .wait_timeout_while(result, limit, |it| it.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// What the operation reports to. MXNet drops an operation without running it if what computes its
/// input has failed; that is reported, too.
struct RunReport(Option<Arc<RunResult>>);

impl RunReport {
    fn send(&mut self, result: Result<Outputs>) {
        if let Some(place) = self.0.take() {
            *place.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            place.arrived.notify_one();
        }
    }
}

impl Drop for RunReport {
    fn drop(&mut self) {
        self.send(Err(Error::Skipped));
    }
}

/// An array of the operation, and the one that becomes its result.
struct SizedLaterArray {
    input: Array,
    output: Arc<Mutex<Option<Array>>>,
    dtype: DType,
    shape: Shape,
}

/// Pushes an operation to MXNet's engine. `inputs` are handles of arrays, which the caller keeps
/// during the call.
pub fn run(operation: CollectiveCall, inputs: &[usize]) -> Result<PendingRun> {
    let tensors = inputs
        .iter()
        .map(|&handle| SizedLaterArray::new(handle, operation.kind))
        .collect::<Result<Vec<_>>>()?;
    let read: Vec<_> = tensors.iter().map(|tensor| tensor.input.raw()).collect();
    let name = operation.full_name();
    let order = Push {
        read: &read,
        written: &[],
        kind: operation.kind,
        priority: operation.priority,
    };
    let result = Arc::<RunResult>::default();
    let mut report = RunReport(Some(Arc::clone(&result)));
    let run = move |completion: PushCompletion| {
        let submissions = tensors
            .iter()
            .map(|tensor| tensor.submission(&operation, &name))
            .collect();
        let then = move |result: Result<Vec<OperationOutput>>| {
            let result = result.and_then(|outcomes| collect(&tensors, outcomes));
            drop(tensors);
            // An error goes to the caller; MXNet would raise it a second time.
            completion.finish(Ok(()));
            report.send(result);
        };
        operation.submit(&name, submissions, Box::new(then));
    };
    push(&order, Box::new(run))?;
    Ok(PendingRun(result))
}

fn collect(tensors: &[SizedLaterArray], outcomes: Vec<OperationOutput>) -> Result<Outputs> {
    let mut outputs = Outputs {
        arrays: Vec::with_capacity(tensors.len()),
        received_splits: Vec::new(),
    };
    let arrays = tensors
        .iter()
        .zip(&outcomes)
        .map(|(tensor, outcome)| tensor.result(outcome))
        .collect::<Result<Vec<_>>>()?;
    outputs.arrays = arrays.into_iter().map(Array::into_handle).collect();
    if let Some(first) = outcomes.into_iter().next() {
        outputs.received_splits = first.received_splits;
    }
    Ok(outputs)
}

impl SizedLaterArray {
    fn new(handle: usize, kind: OpKind) -> Result<Self> {
        let input = Array::of_handle(handle)?;
        let (dtype, shape) = (input.dtype()?, input.shape()?);
        if kind == OpKind::Reducescatter && shape.is_scalar() {
            return Err(Error::ScalarScatter);
        }
        input.order_plain_layout(dtype, &shape);
        Ok(Self {
            input,
            output: Arc::default(),
            dtype,
            shape,
        })
    }

    fn submission(&self, operation: &CollectiveCall, name: &Arc<str>) -> Result<Submission> {
        let memory = self.input.memory(self.dtype, &self.shape, Access::Read)?;
        let described = (self.dtype, self.shape.clone());
        Ok(Submission {
            target: self.target()?,
            ..operation.submission(name, described, memory.source())
        })
    }

    /// Memory of a new array with the rows of the input, however many there are in the end.
    fn target(&self) -> Result<TensorTarget> {
        let (input, output) = (self.input.share()?, Arc::clone(&self.output));
        let (dtype, shape) = (self.dtype, self.shape.clone());
        let row = shape.row_elements().unwrap_or(0) * dtype.size() as u64;
        Ok(Array::provided(move |bytes| {
            // Rows without bytes say nothing about their number; see `result`.
            let rows = (bytes as u64).checked_div(row).filter(|rows| *rows > 0)?;
            let shape = shape.with_first(rows);
            let array = Array::now(&input, dtype, &shape).ok()?;
            let memory = array.memory(dtype, &shape, Access::Write).ok()?;
            *output.lock().unwrap_or_else(PoisonError::into_inner) = Some(array);
            Some(memory)
        }))
    }

    /// The array with the result.
    fn result(&self, outcome: &OperationOutput) -> Result<Array> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = output.take() {
            return Ok(array);
        }
        let shape = &outcome.shape;
        let array = Array::now(&self.input, self.dtype, shape)?;
        let bytes = outcome.output.as_ref().map_or(&[][..], |it| it.as_slice());
        array.memory(self.dtype, shape, Access::Write)?.fill(bytes);
        Ok(array)
    }
}
