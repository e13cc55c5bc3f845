//! Everything that touches XLA's memory or calls its functions, behind safe types: the [`abi`], one
//! [`call`] of the handler and the [`future`] of a call that is not over when it returns.
//!
//! Must not know: what a collective is.

#![expect(
    unsafe_code,
    reason = "XLA's interface is functions and pointers found at run time"
)]

mod abi;
mod call;
mod future;

use abi::{CallFrame, EXECUTE, XlaError};
pub(crate) use call::{ArrayBuffer, Call};
pub(crate) use future::Future;

use crate::collective;

/// The address of the handler, for `jax.ffi.register_ffi_target`.
pub fn handler() -> usize {
    let handle: unsafe extern "C" fn(*mut CallFrame) -> *mut XlaError = handle;
    (handle as *const ()).expose_provenance()
}

/// What XLA calls.
///
/// # Safety
/// The frame is valid for the length of the call; the buffers in it are valid until the call
/// returns or, if it leaves a future in the frame, until that is over.
unsafe extern "C" fn handle(frame: *mut CallFrame) -> *mut XlaError {
    // SAFETY: the caller promises that the frame is valid, and uses it for nothing else meanwhile.
    let frame = unsafe { &mut *frame };
    // SAFETY: as above.
    if unsafe { call::answer_metadata(frame) } || frame.stage != EXECUTE {
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let mut call = unsafe { Call::new(frame) };
    match collective::start(&mut call) {
        Ok(()) => std::ptr::null_mut(),
        Err(error) => call.error(&error),
    }
}
