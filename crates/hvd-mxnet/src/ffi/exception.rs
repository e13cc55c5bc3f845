//! The exception by which an operation fails.
//!
//! MXNet takes a `dmlc::Error *` and copies what it points to. That is a `std::runtime_error`
//! without members of its own, so a `std::runtime_error` made by the C++ library's own constructor
//! has the same bytes. Nothing is thrown: MXNet throws its copy where the array is waited for.

use std::ffi::{CString, c_char, c_void};

use super::api::LoadedLibrary;
use crate::error::Result;

/// Room for a `std::runtime_error`, which has two words: a table of functions and a text.
#[repr(C, align(16))]
struct RuntimeError([usize; 4]);

type Construct = unsafe extern "C" fn(*mut RuntimeError, *const c_char);
type Destroy = unsafe extern "C" fn(*mut RuntimeError);

/// Constructor and destructor of the C++ library that MXNet uses.
pub(super) struct CppExceptions {
    construct: Construct,
    destroy: Destroy,
}

impl CppExceptions {
    pub(super) fn find(library: &LoadedLibrary) -> Result<Self> {
        let construct = library.symbol(&[c"_ZNSt13runtime_errorC1EPKc"])?;
        let destroy = library.symbol(&[c"_ZNSt13runtime_errorD1Ev"])?;
        Ok(Self {
            // SAFETY: the mangled name says that it is `runtime_error(const char *)`.
            construct: unsafe { std::mem::transmute::<*mut c_void, Construct>(construct) },
            // SAFETY: the mangled name says that it is `~runtime_error()`.
            destroy: unsafe { std::mem::transmute::<*mut c_void, Destroy>(destroy) },
        })
    }

    /// Calls `use_it` with an exception of this text, which is gone afterwards.
    pub(super) fn with<T>(&self, text: &str, use_it: impl FnOnce(*const c_void) -> T) -> T {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        let mut exception = RuntimeError([0; 4]);
        let place = &raw mut exception;
        // SAFETY: there is room for the object, and the text ends with a zero; it is copied.
        unsafe { (self.construct)(place, text.as_ptr()) };
        let result = use_it(place.cast_const().cast());
        // SAFETY: it was constructed above and is not used any more.
        unsafe { (self.destroy)(place) };
        result
    }
}
