//! Runs a function when the process ends by `exit`, after Python's own end, with the exit status.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

static CALLED: OnceLock<fn(c_int)> = OnceLock::new();

unsafe extern "C" {
    /// Of the GNU C library: as `atexit`, and passes the status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

extern "C" fn run(status: c_int, _argument: *mut c_void) {
    if let Some(called) = CALLED.get() {
        called(status);
    }
}

/// Has `function` called at the end of the process. Only the first call has an effect.
pub(crate) fn on_exit_call(function: fn(c_int)) {
    if CALLED.set(function).is_ok() {
        // SAFETY: the function lives as long as the process, which never unloads this library.
        unsafe { on_exit(run, std::ptr::null_mut()) };
    }
}
