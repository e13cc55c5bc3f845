//! The promise of a call to be over later, on another thread.

use std::mem::offset_of;

use super::abi::{FutureArguments, XlaApi, XlaFuture};
use super::call::{create_error, header};
use crate::error::Result;

/// XLA's promise, to be kept once.
pub(crate) struct Future {
    api: &'static XlaApi,
    raw: *mut XlaFuture,
}

// SAFETY: XLA allows a future to be completed from any thread.
unsafe impl Send for Future {}

impl Future {
    /// A new one, and what XLA wants to see of it; `None` if this XLA has none.
    pub(super) fn new(api: &'static XlaApi) -> Option<(Self, *mut XlaFuture)> {
        let needed = offset_of!(XlaApi, set_error) + size_of::<usize>();
        if api.header.struct_size < needed {
            return None;
        }
        let mut arguments = arguments(std::ptr::null_mut());
        // SAFETY: the arguments are complete.
        let error = unsafe { (api.create_future)(&raw mut arguments) };
        let raw = arguments.future;
        (error.is_null() && !raw.is_null()).then_some((Self { api, raw }, raw))
    }

    /// Ends the call.
    pub(crate) fn complete(self, result: Result<()>) {
        let mut arguments = arguments(self.raw);
        let set = match result {
            Ok(()) => self.api.set_available,
            Err(error) => {
                arguments.error = create_error(self.api, &error);
                self.api.set_error
            }
        };
        // SAFETY: the arguments are complete; the future is completed once, because it is consumed.
        unsafe { set(&raw mut arguments) };
    }
}

fn arguments(future: *mut XlaFuture) -> FutureArguments {
    FutureArguments {
        header: header::<FutureArguments>(),
        future,
        error: std::ptr::null_mut(),
    }
}
