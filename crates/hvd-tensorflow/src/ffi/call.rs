//! One run of a kernel: its inputs, its outputs and its end.
//!
//! TensorFlow keeps the context, and with it the inputs and the outputs, until the done callback
//! has run. What is borrowed from it here is therefore valid until [`KernelCall::finish`]; after
//! that, every method of the call fails.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use hvd_engine::{OperationOutput, TensorSource, TensorTarget};
use hvd_types::{DType, Shape};

use super::api::{Api, TfContext, TfTensor};
use super::done::Done;
use super::status::Status;
use crate::dtype;
use crate::error::{Error, Result};

/// A run that may end on any thread. Clones are the same run.
#[derive(Clone)]
pub(crate) struct KernelCall(Arc<Mutex<Option<RunningCall>>>);

struct RunningCall {
    api: &'static Api,
    context: *mut TfContext,
    /// Runs when this is dropped.
    _done: Done,
}

// SAFETY: TensorFlow allows the context and the callback of an asynchronous kernel to be used from
// any thread, by one at a time, which the lock ensures.
unsafe impl Send for RunningCall {}

/// A tensor that came with the call.
#[derive(Debug, Clone)]
pub(crate) struct InputTensor {
    index: c_int,
    address: usize,
    bytes: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

impl KernelCall {
    pub(super) fn new(api: &'static Api, context: *mut TfContext, done: Done) -> Self {
        let running = RunningCall {
            api,
            context,
            _done: done,
        };
        Self(Arc::new(Mutex::new(Some(running))))
    }

    fn with<T>(&self, use_it: impl FnOnce(&RunningCall) -> Result<T>) -> Result<T> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = || Error::Argument("the call is over".to_owned());
        use_it(running.as_ref().ok_or_else(over)?)
    }

    /// Number of inputs.
    pub(crate) fn count(&self) -> Result<usize> {
        self.with(|running| {
            // SAFETY: the context is valid until the call is finished.
            let count = unsafe { (running.api.num_inputs)(running.context) };
            Ok(usize::try_from(count).unwrap_or(0))
        })
    }

    /// An input.
    pub(crate) fn input(&self, index: usize) -> Result<InputTensor> {
        self.with(|running| running.input(position(index)?))
    }

    /// The numbers in an input of 32-bit integers.
    pub(crate) fn numbers(&self, index: usize) -> Result<Vec<i32>> {
        let input = self.input(index)?;
        self.with(|_| {
            if input.bytes == 0 {
                return Ok(Vec::new());
            }
            let address: *const i32 = std::ptr::with_exposed_provenance(input.address);
            // SAFETY: the input is valid until the call is finished, which the lock prevents; its
            // memory is aligned for every element type, and it is as long as it says.
            let numbers = unsafe { std::slice::from_raw_parts(address, input.bytes / 4) };
            Ok(numbers.to_vec())
        })
    }

    /// An input, for the engine to read. The call must not be finished before the operation.
    pub(crate) fn source(input: &InputTensor) -> TensorSource {
        // SAFETY: TensorFlow keeps inputs unchanged until the call is finished, and a call is
        // finished when the operation it started has completed.
        unsafe { TensorSource::borrowed(input.address, input.bytes) }
    }

    /// Memory for an output like the input with the same number: the input's own if nothing else
    /// needs it.
    pub(crate) fn output_like(&self, input: &InputTensor) -> Result<TensorTarget> {
        self.with(|running| {
            let address = running.forward_or_allocate(input)?;
            // SAFETY: the output is the context's and used by nothing else before the call is
            // finished, which is when the operation has completed. It is the input's memory or
            // overlaps it nowhere.
            Ok(unsafe { TensorTarget::borrowed(address, input.bytes) })
        })
    }

    /// Memory for an output with the rows of the input, however many there are in the end.
    pub(crate) fn output_with_rows_like(&self, output: usize, input: &InputTensor) -> TensorTarget {
        let (call, dtype) = (self.clone(), input.dtype);
        let shape = input.shape.clone();
        let row = shape.row_elements().unwrap_or(0) * dtype.size() as u64;
        let provide = move |bytes: usize| {
            // Rows without bytes say nothing about their number; see `set_output`.
            let rows = (bytes as u64).checked_div(row)?;
            let shape = shape.with_first(rows);
            call.with(|running| running.allocate(output, dtype, &shape, bytes))
                .ok()
        };
        // SAFETY: the output has as many bytes as were asked for, is the context's and used by
        // nothing else before the call is finished, which is when the operation has completed.
        unsafe { TensorTarget::provided(provide) }
    }

    /// Makes a result that the engine had to allocate itself an output; does nothing if it went to
    /// one already.
    pub(crate) fn set_output(
        &self,
        output: usize,
        dtype: DType,
        outcome: &OperationOutput,
    ) -> Result<()> {
        let Some(buffer) = &outcome.output else {
            return Ok(());
        };
        self.fill(output, dtype, &outcome.shape, buffer.as_slice())
    }

    /// Makes 32-bit integers an output.
    pub(crate) fn set_numbers(&self, output: usize, shape: &Shape, numbers: &[i32]) -> Result<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_ne_bytes()).collect();
        self.fill(output, DType::Int32, shape, &bytes)
    }

    fn fill(&self, output: usize, dtype: DType, shape: &Shape, bytes: &[u8]) -> Result<()> {
        self.with(|running| {
            let address = running.allocate(output, dtype, shape, bytes.len())?;
            if !bytes.is_empty() {
                let place: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
                // SAFETY: the output has just been allocated with this length.
                unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
            Ok(())
        })
    }

    /// Ends the run. TensorFlow goes on with the outputs, or with the error.
    pub(crate) fn finish(&self, result: Result<()>) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(running), Err(error)) = (&running, result) {
            let status = Status::of(running.api, &error);
            // SAFETY: the context is valid until the callback runs; TensorFlow copies the status.
            unsafe { (running.api.context_failure)(running.context, status.raw()) };
        }
        // The lock is free: the callback may do anything.
        drop(running);
    }
}

impl RunningCall {
    fn input(&self, index: c_int) -> Result<InputTensor> {
        let (api, status) = (self.api, Status::new(self.api));
        let mut tensor = std::ptr::null_mut();
        // SAFETY: the context is valid until the call is finished; the rest is ours.
        unsafe { (api.get_input)(self.context, index, &raw mut tensor, status.raw()) };
        status.check()?;
        let tensor = TfTensorRef { api, raw: tensor };
        Ok(InputTensor {
            index,
            address: tensor.address(),
            bytes: tensor.bytes(),
            dtype: tensor.dtype()?,
            shape: tensor.shape(),
        })
    }

    /// The address of an output like an input. The input's memory is taken over only if nothing
    /// holds another reference to it, so none is held here.
    fn forward_or_allocate(&self, input: &InputTensor) -> Result<usize> {
        let (dimensions, rank) = dimensions(&input.shape)?;
        let status = Status::new(self.api);
        let (candidate, mut forwarded) = (input.index, -1);
        // SAFETY: the context is valid until the call is finished; the arrays are ours and as long
        // as they are said to be.
        let tensor = unsafe {
            (self.api.forward_or_allocate)(
                self.context,
                &raw const candidate,
                1,
                input.index,
                dimensions.as_ptr(),
                rank,
                &raw mut forwarded,
                status.raw(),
            )
        };
        status.check()?;
        let tensor = TfTensorRef {
            api: self.api,
            raw: tensor,
        };
        Ok(tensor.address())
    }

    /// The address of a new output. The context keeps it.
    fn allocate(&self, output: usize, dtype: DType, shape: &Shape, bytes: usize) -> Result<usize> {
        let (dimensions, rank) = dimensions(shape)?;
        let status = Status::new(self.api);
        // SAFETY: the context is valid until the call is finished; the array is ours and as long
        // as it is said to be.
        let tensor = unsafe {
            (self.api.allocate_output)(
                self.context,
                position(output)?,
                dtype::number(dtype),
                dimensions.as_ptr(),
                rank,
                bytes,
                status.raw(),
            )
        };
        status.check()?;
        let tensor = TfTensorRef {
            api: self.api,
            raw: tensor,
        };
        Ok(tensor.address())
    }
}

/// A reference to a tensor.
struct TfTensorRef {
    api: &'static Api,
    raw: *mut TfTensor,
}

impl TfTensorRef {
    fn address(&self) -> usize {
        // SAFETY: the tensor is valid until it is dropped.
        unsafe { (self.api.tensor_data)(self.raw) }.expose_provenance()
    }

    fn bytes(&self) -> usize {
        // SAFETY: as above.
        unsafe { (self.api.tensor_byte_size)(self.raw) }
    }

    fn dtype(&self) -> Result<DType> {
        // SAFETY: as above.
        dtype::from_number(unsafe { (self.api.tensor_type)(self.raw) })
    }

    fn shape(&self) -> Shape {
        // SAFETY: as above.
        let rank = unsafe { (self.api.num_dims)(self.raw) };
        let dimension = |index| {
            // SAFETY: as above; the index is less than the number of dimensions.
            let dimension = unsafe { (self.api.dim)(self.raw, index) };
            u64::try_from(dimension).unwrap_or(0)
        };
        (0..rank).map(dimension).collect()
    }
}

impl Drop for TfTensorRef {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and given up once.
        unsafe { (self.api.delete_tensor)(self.raw) };
    }
}

/// A shape as TensorFlow takes it.
fn dimensions(shape: &Shape) -> Result<(Vec<i64>, c_int)> {
    let large = |_| Error::Argument(format!("a tensor of shape {shape} is too large"));
    let dimensions: Vec<i64> = shape
        .dimensions()
        .iter()
        .map(|&dimension| i64::try_from(dimension).map_err(large))
        .collect::<Result<_>>()?;
    let rank = position(dimensions.len())?;
    Ok((dimensions, rank))
}

fn position(index: usize) -> Result<c_int> {
    c_int::try_from(index).map_err(|_| Error::Argument("too many tensors".to_owned()))
}
