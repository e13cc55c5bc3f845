//! Operations whose results have the shape of their inputs. The call returns at once; MXNet orders
//! the operation with all others that use the arrays, and raises its error where one of them is
//! waited for.

use std::sync::{Arc, Mutex, PoisonError};

use hvd_engine::{OperationOutput, Submission};
use hvd_types::{DType, Shape};

use crate::error::{Error, Result};
use crate::ffi::{Access, Array, Push, PushCompletion, is_synchronous, leave_distinct, push};
use crate::operation::CollectiveCall;

/// Where results go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To the inputs.
    InPlace,
    /// To arrays of their own.
    New,
}

/// An array of the operation.
struct ShapedArray {
    input: Array,
    /// The result's own array; without one the operation is in place.
    output: Option<Array>,
    dtype: DType,
    shape: Shape,
}

/// Pushes an operation to MXNet's engine. `inputs` are handles of arrays, which the caller keeps
/// during the call. Returns handles of new arrays, which the caller owns; none if it is in place.
pub fn start(operation: CollectiveCall, inputs: &[usize], target: Target) -> Result<Vec<usize>> {
    let tensors = inputs
        .iter()
        .map(|&handle| ShapedArray::new(handle, target))
        .collect::<Result<Vec<_>>>()?;
    let outputs = tensors.iter().filter_map(|tensor| tensor.output.as_ref());
    let outputs = outputs.map(Array::share).collect::<Result<Vec<_>>>()?;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for tensor in &tensors {
        match &tensor.output {
            Some(output) => {
                read.push(tensor.input.raw());
                written.push(output.raw());
            }
            None => written.push(tensor.input.raw()),
        }
    }
    let shares_memory = operation.grouped && leave_distinct(&mut written)?;
    let name = operation.full_name();
    let order = Push {
        read: &read,
        written: &written,
        kind: operation.kind,
        priority: operation.priority,
    };
    let failure: Arc<Mutex<Option<Error>>> = Arc::default();
    let report = is_synchronous().then(|| Arc::clone(&failure));
    let run = move |completion: PushCompletion| {
        let checked = if shares_memory {
            check_overlap(&tensors)
        } else {
            Ok(())
        };
        let submissions = checked.and_then(|()| {
            tensors
                .iter()
                .map(|tensor| tensor.submission(&operation, &name))
                .collect()
        });
        let then = move |result: Result<Vec<OperationOutput>>| {
            if let (Some(report), Err(error)) = (report, &result) {
                *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
            }
            completion.finish(result.map(drop));
            // Until here they keep the memory alive.
            drop(tensors);
        };
        operation.submit(&name, submissions, Box::new(then));
    };
    push(&order, Box::new(run))?;
    // MXNet's engine for debugging loses errors, but has run the operation by now.
    let failed = failure
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match failed {
        Some(error) => Err(error),
        None => Ok(outputs.into_iter().map(Array::into_handle).collect()),
    }
}

/// Refuses results that would overwrite each other. Slices of one array are allowed.
fn check_overlap(tensors: &[ShapedArray]) -> Result<()> {
    let places = tensors
        .iter()
        .map(|tensor| {
            let ShapedArray {
                input,
                dtype,
                shape,
                ..
            } = tensor;
            input.memory(*dtype, shape, Access::Write)
        })
        .collect::<Result<Vec<_>>>()?;
    for (index, place) in places.iter().enumerate() {
        if places[..index].iter().any(|other| place.overlaps(other)) {
            return Err(Error::Overlap);
        }
    }
    Ok(())
}

impl ShapedArray {
    fn new(handle: usize, target: Target) -> Result<Self> {
        let input = Array::of_handle(handle)?;
        let (dtype, shape) = (input.dtype()?, input.shape()?);
        let output = match target {
            Target::InPlace => None,
            Target::New => {
                input.order_plain_layout(dtype, &shape);
                Some(Array::later(&input, dtype, &shape)?)
            }
        };
        Ok(Self {
            input,
            output,
            dtype,
            shape,
        })
    }

    fn submission(&self, operation: &CollectiveCall, name: &Arc<str>) -> Result<Submission> {
        let described = (self.dtype, self.shape.clone());
        let (source, target) = match &self.output {
            None => {
                let memory = self.input.memory(self.dtype, &self.shape, Access::Write)?;
                (memory.source(), memory.target())
            }
            Some(output) => {
                let input = self.input.memory(self.dtype, &self.shape, Access::Read)?;
                let output = output.memory(self.dtype, &self.shape, Access::Write)?;
                (input.source(), output.target())
            }
        };
        Ok(Submission {
            target,
            ..operation.submission(name, described, source)
        })
    }
}
