//! One call of the handler: its arrays, its attributes and its way to end.

use std::ffi::{CString, c_void};

use hvd_engine::{TensorSource, TensorTarget};
use hvd_types::{DType, Shape};

use super::abi::{
    BUFFER, ByteSpan, CallFrame, CreateError, F64, Header, MAJOR, METADATA, MetadataExtension,
    RawBuffer, RawBuffers, S64, SCALAR, STRING, Scalar, XlaApi, XlaError,
};
use super::future::Future;
use crate::dtype;
use crate::error::{Error, Result};

/// A huge page of x86-64, and of aarch64 with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// A call that has not returned.
pub(crate) struct Call<'frame> {
    frame: &'frame mut CallFrame,
    api: &'static XlaApi,
}

/// An array that came with the call, or the place of a result.
#[derive(Debug, Clone)]
pub(crate) struct ArrayBuffer {
    address: usize,
    pub(crate) bytes: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

/// Answers the question for the version of the interface, by echoing XLA's own minor one: what is
/// used here has not changed since 0.1. XLA of version 0.1 asks without its functions, and of
/// version 0.0 not at all. Returns whether this was the question.
///
/// # Safety
/// The frame is valid.
pub(super) unsafe fn answer_metadata(frame: &CallFrame) -> bool {
    let extension = frame.header.extension;
    // SAFETY: a frame's extension is null or valid for the length of the call.
    let Some(base) = (unsafe { extension.as_ref() }) else {
        return false;
    };
    if base.kind != METADATA {
        return false;
    }
    // SAFETY: this is what an extension of this kind is the beginning of.
    let metadata = unsafe { &*extension.cast::<MetadataExtension>() }.metadata;
    // SAFETY: it is XLA's place for the answer.
    let metadata = unsafe { &mut *metadata };
    // SAFETY: a frame's functions are absent or valid.
    let api = unsafe { frame.api.as_ref() };
    metadata.api_version.major = MAJOR;
    metadata.api_version.minor = api.map_or(1, |api| api.version.minor);
    true
}

impl<'frame> Call<'frame> {
    /// # Safety
    /// The frame is one of XLA's, for the length of the borrow; its table of functions is static.
    pub(super) unsafe fn new(frame: &'frame mut CallFrame) -> Self {
        // SAFETY: as promised.
        let api = unsafe { &*frame.api };
        Self { frame, api }
    }

    /// The arrays that came with the call.
    pub(crate) fn arguments(&self) -> Result<Vec<ArrayBuffer>> {
        // SAFETY: the list belongs to the frame.
        unsafe { buffers(&self.frame.arguments) }
    }

    /// The places of its results.
    pub(crate) fn results(&self) -> Result<Vec<ArrayBuffer>> {
        // SAFETY: the list belongs to the frame.
        unsafe { buffers(&self.frame.results) }
    }

    /// An attribute that is a whole number.
    pub(crate) fn number(&self, name: &str) -> Result<i64> {
        let value = self.scalar(name, S64)?;
        // SAFETY: the type says that the value is an `i64`.
        Ok(unsafe { value.cast::<i64>().read_unaligned() })
    }

    /// An attribute that is a fraction.
    pub(crate) fn fraction(&self, name: &str) -> Result<f64> {
        let value = self.scalar(name, F64)?;
        // SAFETY: the type says that the value is an `f64`.
        Ok(unsafe { value.cast::<f64>().read_unaligned() })
    }

    /// An attribute that is a text.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        let value = self.attribute(name, STRING)?;
        // SAFETY: an attribute of this kind is a span.
        let bytes = unsafe { span(value.cast()) };
        str::from_utf8(bytes).map_err(|_| missing(name))
    }

    fn scalar(&self, name: &str, dtype: i32) -> Result<*const c_void> {
        let value = self.attribute(name, SCALAR)?;
        // SAFETY: an attribute of this kind is a scalar.
        let scalar = unsafe { &*value.cast::<Scalar>() };
        if scalar.dtype == dtype {
            Ok(scalar.value)
        } else {
            Err(missing(name))
        }
    }

    fn attribute(&self, name: &str, kind: i32) -> Result<*const c_void> {
        let raw = &self.frame.attributes;
        // SAFETY: the arrays are as long as their size says.
        let names = unsafe { list(raw.names, raw.size) };
        // SAFETY: as above.
        let kinds = unsafe { list(raw.types, raw.size) };
        // SAFETY: as above.
        let values = unsafe { list(raw.attributes, raw.size) };
        for ((&entry, &it), &value) in names.iter().zip(kinds).zip(values) {
            // SAFETY: names are spans.
            if it == kind && unsafe { span(entry) } == name.as_bytes() {
                return Ok(value);
            }
        }
        Err(missing(name))
    }

    /// Lets the call return before it is over; `None` if this XLA always waits for the return.
    pub(crate) fn future(&mut self) -> Option<Future> {
        let (future, raw) = Future::new(self.api)?;
        self.frame.future = raw;
        Some(future)
    }

    /// XLA's form of an error.
    pub(super) fn error(&self, error: &Error) -> *mut XlaError {
        create_error(self.api, error)
    }
}

/// XLA's form of an error.
pub(super) fn create_error(api: &XlaApi, error: &Error) -> *mut XlaError {
    let message = CString::new(error.text().replace('\0', " ")).unwrap_or_default();
    let mut arguments = CreateError {
        header: header::<CreateError>(),
        message: message.as_ptr(),
        code: error.code(),
    };
    // SAFETY: the arguments are complete, and XLA copies the message.
    unsafe { (api.create_error)(&raw mut arguments) }
}

/// The beginning of a structure that is passed to XLA.
pub(super) fn header<Structure>() -> Header {
    Header {
        struct_size: size_of::<Structure>(),
        extension: std::ptr::null_mut(),
    }
}

impl ArrayBuffer {
    /// The array, for the engine to read. The call must not be over before the operation.
    pub(crate) fn source(&self) -> TensorSource {
        // SAFETY: XLA keeps arguments unchanged until the call is over.
        unsafe { TensorSource::borrowed(self.address, self.bytes) }
    }

    /// The place, for the engine to write to. The call must not be over before the operation.
    pub(crate) fn target(&self) -> TensorTarget {
        advise_huge_pages(self.address, self.bytes);
        // SAFETY: the results of a call are its own until it is over.
        unsafe { TensorTarget::borrowed(self.address, self.bytes) }
    }

    /// As [`ArrayBuffer::target`], for a result whose length only the ranks together know. If it is
    /// another one, the engine keeps it.
    pub(crate) fn target_if_it_fits(&self) -> TensorTarget {
        let (address, expected) = (self.address, self.bytes);
        advise_huge_pages(address, expected);
        // SAFETY: as above; the place has as many bytes as were asked for.
        unsafe { TensorTarget::provided(move |bytes| (bytes == expected).then_some(address)) }
    }
}

/// Asks the kernel for huge pages in the memory of a large result. XLA takes it anew from the kernel
/// for each run of a program, and to clear it page by page takes longer than to reduce into it.
#[cfg(target_os = "linux")]
fn advise_huge_pages(address: usize, bytes: usize) {
    let first = address.next_multiple_of(HUGE_PAGE);
    let length = (address + bytes).saturating_sub(first) / HUGE_PAGE * HUGE_PAGE;
    if length >= HUGE_PAGE {
        // SAFETY: the pages lie within the result, and the advice changes nothing that can be seen.
        // If the kernel has no use for it, nothing is lost.
        unsafe {
            libc::madvise(
                std::ptr::with_exposed_provenance_mut(first),
                length,
                libc::MADV_HUGEPAGE,
            )
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_address: usize, _bytes: usize) {}

/// # Safety
/// The list is one of XLA's: arrays as long as its size says, of valid buffers.
unsafe fn buffers(raw: &RawBuffers) -> Result<Vec<ArrayBuffer>> {
    // SAFETY: as promised.
    let kinds = unsafe { list(raw.types, raw.size) };
    // SAFETY: as promised.
    let buffers = unsafe { list(raw.buffers, raw.size) };
    let known = |(index, (&kind, &buffer)): (usize, (&i32, &*const RawBuffer))| {
        if kind != BUFFER {
            return Err(Error::Argument(format!("array {index} is no buffer")));
        }
        // SAFETY: the type says that this is a buffer.
        let buffer = unsafe { &*buffer };
        // SAFETY: as promised.
        unsafe { described(buffer) }
    };
    kinds.iter().zip(buffers).enumerate().map(known).collect()
}

/// # Safety
/// The buffer is one of XLA's.
unsafe fn described(raw: &RawBuffer) -> Result<ArrayBuffer> {
    let dtype = dtype::from_number(raw.dtype)?;
    // SAFETY: there are as many dimensions as the rank says.
    let dims = unsafe { list(raw.dims, raw.rank) };
    let shape: Shape = dims
        .iter()
        .map(|&dim| u64::try_from(dim).unwrap_or(0))
        .collect();
    let elements = shape
        .elements()
        .and_then(|count| usize::try_from(count).ok());
    let bytes = elements.and_then(|count| count.checked_mul(dtype.size()));
    let large = || Error::Argument(format!("an array of shape {shape} is too large"));
    Ok(ArrayBuffer {
        address: raw.data.expose_provenance(),
        bytes: bytes.ok_or_else(large)?,
        dtype,
        shape,
    })
}

/// # Safety
/// The span is one of XLA's, valid for the lifetime.
unsafe fn span<'a>(span: *const ByteSpan) -> &'a [u8] {
    // SAFETY: as promised.
    let span = unsafe { &*span };
    let length = i64::try_from(span.length).unwrap_or(0);
    // SAFETY: as promised.
    unsafe { list(span.pointer, length) }
}

/// # Safety
/// There are `size` valid elements, for the lifetime.
unsafe fn list<'a, T>(first: *const T, size: i64) -> &'a [T] {
    match usize::try_from(size) {
        // SAFETY: as promised.
        Ok(size) if size > 0 => unsafe { std::slice::from_raw_parts(first, size) },
        _ => &[],
    }
}

fn missing(name: &str) -> Error {
    Error::Argument(format!("the call has no attribute `{name}`, or an odd one"))
}

#[cfg(test)]
mod tests {
    use std::mem::zeroed;

    use super::super::abi::{Extension, Metadata};
    use super::*;

    #[test]
    fn xla_of_version_0_1_asks_for_the_version_without_its_functions() {
        // SAFETY: numbers and pointers, which may be null.
        let mut metadata: Metadata = unsafe { zeroed() };
        let mut question = MetadataExtension {
            base: Extension {
                struct_size: size_of::<MetadataExtension>(),
                kind: METADATA,
                next: std::ptr::null_mut(),
            },
            metadata: &raw mut metadata,
        };
        // SAFETY: as above.
        let mut frame: CallFrame = unsafe { zeroed() };
        // SAFETY: the frame is valid.
        assert!(!unsafe { answer_metadata(&frame) });
        frame.header.extension = (&raw mut question).cast();
        // SAFETY: as above, and so is its extension.
        assert!(unsafe { answer_metadata(&frame) });
        let answer = &metadata.api_version;
        assert_eq!((answer.major, answer.minor), (0, 1));
    }
}
