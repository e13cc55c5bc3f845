//! Addresses that Python hands over become sources and targets of operations.

#![expect(unsafe_code, reason = "tensors cross the language border as addresses")]

pub(crate) mod dlpack;

use hvd_engine::{TensorSource, TensorTarget};
use hvd_types::{DType, Shape};

/// The input of an operation.
pub(crate) fn source(address: usize, dtype: DType, shape: &Shape) -> TensorSource {
    let bytes = length(dtype, shape);
    // SAFETY: the contract of `_core.pyi`: the caller keeps the tensor at this address alive and
    // unchanged until `wait` on the operation's handle has returned, and it holds as many elements
    // as its shape and type say. The Python layer takes all three from one live tensor and keeps a
    // reference to it next to the handle.
    unsafe { TensorSource::borrowed(address, bytes) }
}

/// The result of an operation.
pub(crate) fn target(address: usize, dtype: DType, shape: &Shape) -> TensorTarget {
    let bytes = length(dtype, shape);
    // SAFETY: as for `source`; nothing else reads the result before `wait` has returned.
    unsafe { TensorTarget::borrowed(address, bytes) }
}

/// A length that overflows belongs to no tensor; the engine then refuses the shape itself.
fn length(dtype: DType, shape: &Shape) -> usize {
    let elements = shape
        .elements()
        .and_then(|elements| usize::try_from(elements).ok());
    elements
        .and_then(|elements| elements.checked_mul(dtype.size()))
        .unwrap_or(0)
}
