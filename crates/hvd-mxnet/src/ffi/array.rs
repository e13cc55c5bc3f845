//! One array of MXNet: what it is, and where its memory is.

use std::ffi::c_int;

use hvd_engine::{TensorSource, TensorTarget};
use hvd_types::{DType, Shape};

use super::api::{Api, DeviceContext, NdArray, api};
use crate::dtype;
use crate::error::{Error, Result};

/// `kCPU`; pinned and shared memory of the host have numbers of their own.
const CPU: c_int = 1;
const HOST_MEMORY: [c_int; 3] = [CPU, 3, 5];

/// `kDefaultStorage`
const DENSE: c_int = 0;

/// What an operation may do with an array while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Others may read it as well.
    Read,
    /// It is the operation's alone.
    Write,
}

/// A reference to an array, which keeps its memory alive.
pub(crate) struct Array {
    api: &'static Api,
    raw: NdArray,
}

// SAFETY: MXNet's arrays are counted references, usable from any thread.
unsafe impl Send for Array {}

/// Memory of an array, for as long as the operation that asked for it.
pub(crate) struct Memory {
    address: usize,
    bytes: usize,
}

impl Array {
    /// A reference of our own to the array behind a handle. Python passes the handle of an array
    /// that it holds during the call.
    pub(crate) fn of_handle(handle: usize) -> Result<Self> {
        let array = Self::copy_of(api()?, std::ptr::with_exposed_provenance_mut(handle))?;
        array.check_storage()?;
        Ok(array)
    }

    /// One more reference to the same array.
    pub(crate) fn share(&self) -> Result<Self> {
        Self::copy_of(self.api, self.raw)
    }

    fn copy_of(api: &'static Api, array: NdArray) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the array is valid: it is ours or, during this call, Python's.
        let code = unsafe { (api.functions.shallow_copy)(array, &raw mut raw) };
        api.functions.check(code)?;
        Ok(Self { api, raw })
    }

    /// An array on the device of another one that gets its memory when it is first written to.
    pub(crate) fn later(like: &Self, dtype: DType, shape: &Shape) -> Result<Self> {
        Self::new(like, dtype, shape, 1)
    }

    /// An array on the device of another one, with memory.
    pub(crate) fn now(like: &Self, dtype: DType, shape: &Shape) -> Result<Self> {
        Self::new(like, dtype, shape, 0)
    }

    fn new(like: &Self, dtype: DType, shape: &Shape, delay: c_int) -> Result<Self> {
        let (api, context) = (like.api, like.context()?);
        let large = |_| Error::Mxnet(format!("an array of shape {shape} is too large"));
        let dimensions = shape
            .dimensions()
            .iter()
            .map(|&dimension| i64::try_from(dimension).map_err(large))
            .collect::<Result<Vec<_>>>()?;
        let rank = c_int::try_from(dimensions.len()).map_err(large)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: as many dimensions are given as are announced; the place for the result is ours.
        let code = unsafe {
            (api.functions.create)(
                dimensions.as_ptr(),
                rank,
                context.device_type,
                context.device,
                delay,
                dtype::number(dtype),
                &raw mut raw,
            )
        };
        api.functions.check(code)?;
        Ok(Self { api, raw })
    }

    /// For lists of arrays; valid as long as this.
    pub(crate) fn raw(&self) -> RawArray {
        RawArray(self.raw)
    }

    /// Gives this reference away.
    pub(crate) fn into_handle(self) -> usize {
        std::mem::ManuallyDrop::new(self).raw.expose_provenance()
    }

    /// Type of the elements.
    pub(crate) fn dtype(&self) -> Result<DType> {
        let mut number = -1;
        // SAFETY: the array is ours, and so is the place for the result.
        let code = unsafe { (self.api.functions.dtype)(self.raw, &raw mut number) };
        self.api.functions.check(code)?;
        dtype::from_number(number)
    }

    /// Its shape, which is known on the caller's thread only: whether `()` is a scalar or unknown
    /// is a setting of the thread.
    pub(crate) fn shape(&self) -> Result<Shape> {
        let (mut rank, mut dimensions) = (-1, std::ptr::null());
        let place = &raw mut dimensions;
        // SAFETY: the array is ours, and so are the places for the results.
        let code = unsafe { (self.api.functions.shape)(self.raw, &raw mut rank, place) };
        self.api.functions.check(code)?;
        let rank = usize::try_from(rank).map_err(|_| Error::NoShape)?;
        if rank == 0 {
            return Ok(Shape::default());
        }
        // SAFETY: MXNet returned that many dimensions, valid until it is asked again.
        let dimensions = unsafe { std::slice::from_raw_parts(dimensions, rank) };
        dimensions
            .iter()
            .map(|&dimension| u64::try_from(dimension).map_err(|_| Error::NoShape))
            .collect()
    }

    fn context(&self) -> Result<DeviceContext> {
        let (mut device_type, mut device) = (0, 0);
        let places = (&raw mut device_type, &raw mut device);
        // SAFETY: the array is ours, and so are the places for the results.
        let code = unsafe { (self.api.functions.context)(self.raw, places.0, places.1) };
        self.api.functions.check(code)?;
        Ok(DeviceContext {
            device_type,
            device,
        })
    }

    /// Refuses arrays that are not one block of host memory.
    fn check_storage(&self) -> Result<()> {
        let mut kind = DENSE;
        // SAFETY: the array is ours, and so is the place for the result.
        let code = unsafe { (self.api.functions.storage_type)(self.raw, &raw mut kind) };
        self.api.functions.check(code)?;
        if kind > DENSE {
            return Err(Error::Sparse);
        }
        let device = self.context()?.device_type;
        if !HOST_MEMORY.contains(&device) {
            return Err(Error::Device(device));
        }
        Ok(())
    }

    /// Lets MXNet bring the array in order before operations that are pushed from now on. For
    /// arrays that an operation only reads, if an accelerated operator could have changed them.
    pub(crate) fn order_plain_layout(&self, dtype: DType, shape: &Shape) {
        let accelerated = matches!(
            dtype,
            DType::Float32 | DType::Bfloat16 | DType::Int8 | DType::Uint8
        );
        if let Some(layouts) = &self.api.layouts
            && accelerated
            && shape.dimensions().len() > 1
        {
            // SAFETY: the array is ours.
            unsafe { layouts.push_reorder(self.raw) };
        }
    }

    /// Its memory. Only for an operation that MXNet has started with this access, or for an array
    /// that nothing else knows yet.
    pub(crate) fn memory(&self, dtype: DType, shape: &Shape, access: Access) -> Result<Memory> {
        if let Some(layouts) = &self.api.layouts {
            // SAFETY: MXNet lets nothing write to the array during this operation.
            let plain = unsafe { layouts.is_plain(self.raw) };
            match access {
                _ if plain => {}
                // SAFETY: MXNet lets nothing else use the array during this operation.
                Access::Write => unsafe { layouts.reorder(self.raw) },
                Access::Read => return Err(Error::SpecialLayout),
            }
        }
        let elements = shape.elements().and_then(|it| usize::try_from(it).ok());
        let bytes = elements.and_then(|elements| elements.checked_mul(dtype.size()));
        let bytes = bytes.ok_or(Error::NoShape)?;
        if bytes == 0 {
            return Ok(Memory { address: 0, bytes });
        }
        let mut data = std::ptr::null_mut();
        // SAFETY: the array is ours and in order, so MXNet does not wait for anything.
        let code = unsafe { (self.api.functions.data)(self.raw, &raw mut data) };
        self.api.functions.check(code)?;
        if data.is_null() {
            return Err(Error::NoMemory);
        }
        let address = data.expose_provenance();
        Ok(Memory { address, bytes })
    }

    /// Memory that is asked for when the number of bytes is known.
    pub(crate) fn provided(
        provide: impl FnOnce(usize) -> Option<Memory> + Send + 'static,
    ) -> TensorTarget {
        let address = move |bytes| {
            let memory = provide(bytes)?;
            (memory.bytes == bytes).then_some(memory.address)
        };
        // SAFETY: the memory has this many bytes and is that of an array that only the operation
        // has until it completes.
        unsafe { TensorTarget::provided(address) }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and given up once. An error could not be reported.
        unsafe { (self.api.functions.free)(self.raw) };
    }
}

/// An array in a list of arrays.
#[repr(transparent)]
pub(crate) struct RawArray(NdArray);

/// Leaves one of the arrays that share memory, such as slices of one array; returns whether there
/// were more. An operation that lists memory twice would wait for itself.
pub(crate) fn leave_distinct(arrays: &mut Vec<RawArray>) -> Result<bool> {
    let layouts = api()?.layouts.as_ref();
    let memory_of = |array: &RawArray| match layouts {
        // SAFETY: the lists are made of arrays that are valid as long as they.
        Some(layouts) => unsafe { layouts.owner(array.0) }.addr(),
        None => array.0.addr(),
    };
    let count = arrays.len();
    let mut seen: Vec<usize> = Vec::with_capacity(count);
    arrays.retain(|array| {
        let memory = memory_of(array);
        let is_new = !seen.contains(&memory);
        seen.push(memory);
        is_new
    });
    Ok(arrays.len() < count)
}

impl Memory {
    /// For the engine to read.
    pub(crate) fn source(&self) -> TensorSource {
        // SAFETY: MXNet lets nothing write to the array until the operation completes, which it
        // does after the engine's; the operation keeps the array.
        unsafe { TensorSource::borrowed(self.address, self.bytes) }
    }

    /// For the engine to write.
    pub(crate) fn target(&self) -> TensorTarget {
        // SAFETY: MXNet lets nothing else use the array until the operation completes, which it
        // does after the engine's; the operation keeps the array.
        unsafe { TensorTarget::borrowed(self.address, self.bytes) }
    }

    /// Whether some bytes are another memory's as well.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }

    /// Copies bytes to the memory of a new array, if it has as many.
    pub(crate) fn fill(&self, bytes: &[u8]) {
        if bytes.len() == self.bytes && !bytes.is_empty() {
            let place: *mut u8 = std::ptr::with_exposed_provenance_mut(self.address);
            // SAFETY: the lengths are equal, and nothing else knows the array yet.
            unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
    }
}
