//! Tensors that describe themselves through the C exchange API of `DLPack`: a table of functions
//! that a framework hangs on its tensor class. One call fills in address, type and shape, where
//! asking for them one by one through Python takes longer than everything else in a submission.
//!
//! Owns the layout of its structures, as far as they are used. Must not know any framework.

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use hvd_types::{DType, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

const ATTRIBUTE: &str = "__dlpack_c_exchange_api__";
const CAPSULE: &CStr = c"dlpack_exchange_api";

/// The version of the layouts below. Minor versions only add codes.
const MAJOR_VERSION: u32 = 1;

/// `kDLCPU`.
const CPU: i32 = 1;

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_number: i32,
    dimensions: i32,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLPackDLTensorFromPyObjectNoSync`: fills in a description that is valid while the caller keeps
/// the object as it is. 0, or -1 with an exception.
type Describe = unsafe extern "C" fn(object: *mut c_void, description: *mut DlTensor) -> c_int;

/// `DLPackExchangeAPI`. Which functions follow depends on the major version.
#[repr(C)]
struct ExchangeTable {
    major: u32,
    minor: u32,
    previous: *const Self,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    describe: Option<Describe>,
    current_stream: *const c_void,
}

/// A tensor in the host's memory without gaps.
pub(crate) struct DenseTensor {
    pub(crate) address: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

/// How the tensors of one class are described.
pub(crate) struct DlpackExchange {
    describe: Describe,
}

impl DlpackExchange {
    /// What a class offers; `None` if it offers nothing, or nothing that is known here.
    pub(crate) fn of(class: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        let Some(capsule) = class.getattr_opt(ATTRIBUTE)? else {
            return Ok(None);
        };
        let table: NonNull<ExchangeTable> = capsule
            .cast::<PyCapsule>()?
            .pointer_checked(Some(CAPSULE))?
            .cast();
        // SAFETY: the capsule's name says that it points to such a table, which lives until the
        // process ends; its first two numbers are at this place in every version.
        let major = unsafe { (*table.as_ptr()).major };
        if major != MAJOR_VERSION {
            return Ok(None);
        }
        // SAFETY: as above, and the major version says that the layout is the one declared here.
        let describe = unsafe { (*table.as_ptr()).describe };
        Ok(describe.map(|describe| Self { describe }))
    }

    /// Describes a tensor of the class this was found on; `None` if it is not dense, not in the
    /// host's memory, of a type the engine does not know, or does not want to be described.
    pub(crate) fn dense(&self, tensor: &Bound<'_, PyAny>) -> Option<DenseTensor> {
        let mut description = MaybeUninit::uninit();
        let (object, place) = (tensor.as_ptr().cast(), description.as_mut_ptr());
        // SAFETY: the object is alive, the interpreter is attached to this thread, and the place
        // is one of the right layout. The caller promises the class.
        let status = unsafe { (self.describe)(object, place) };
        if status != 0 {
            drop(PyErr::take(tensor.py()));
            return None;
        }
        // SAFETY: the function has filled in the description, as its status says.
        let description: DlTensor = unsafe { description.assume_init() };
        let shape = description.shape_without_gaps()?;
        let dtype = description.dtype()?;
        let offset = usize::try_from(description.byte_offset).ok()?;
        let address = description.data.expose_provenance().checked_add(offset)?;
        Some(DenseTensor {
            address,
            dtype,
            shape,
        })
    }
}

impl DlTensor {
    fn dtype(&self) -> Option<DType> {
        if self.type_lanes != 1 {
            return None;
        }
        Some(match (self.type_code, self.type_bits) {
            (2, 32) => DType::Float32,
            (2, 16) => DType::Float16,
            (2, 64) => DType::Float64,
            (4, 16) => DType::Bfloat16,
            (0, 8) => DType::Int8,
            (0, 16) => DType::Int16,
            (0, 32) => DType::Int32,
            (0, 64) => DType::Int64,
            (1, 8) => DType::Uint8,
            (1, 16) => DType::Uint16,
            (6, 8) => DType::Bool,
            _ => return None,
        })
    }

    /// The shape, if the tensor is on the host and its elements lie in their order. Every stride
    /// must be that of the order, also one along which there is a single element.
    fn shape_without_gaps(&self) -> Option<Shape> {
        if self.device_type != CPU {
            return None;
        }
        let sizes = self.numbers(self.shape)?;
        let strides = self.numbers(self.strides);
        let mut expected = 1_i64;
        for (&size, &stride) in sizes.iter().zip(strides.unwrap_or_default()).rev() {
            if stride != expected {
                return None;
            }
            expected = expected.checked_mul(size.max(1))?;
        }
        sizes.iter().map(|&size| u64::try_from(size).ok()).collect()
    }

    /// One number for each dimension; `None` where there are none to be had, which for strides
    /// means those of the elements' order.
    fn numbers(&self, first: *const i64) -> Option<&[i64]> {
        let count = usize::try_from(self.dimensions).ok()?;
        if count == 0 {
            return Some(&[]);
        }
        if first.is_null() {
            return None;
        }
        // SAFETY: a description has as many sizes and strides as dimensions, which the framework
        // keeps where they are while it is looked at.
        Some(unsafe { std::slice::from_raw_parts(first, count) })
    }
}
