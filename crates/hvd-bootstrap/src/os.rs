//! The system calls of this crate that are unsafe: libraries opened at run time, and descriptors that
//! a launcher has left open.

#![expect(
    unsafe_code,
    reason = "libraries are opened by name, and descriptors inherited by number"
)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::io::fcntl_dupfd_cloexec;

/// A library of another project, open until the process ends: its threads may outlive its users.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedLibrary(*mut c_void);

// SAFETY: a handle of the dynamic loader may be used from any thread.
unsafe impl Send for SharedLibrary {}

impl SharedLibrary {
    /// Opens a library by its name or path; the reason if that fails.
    pub(crate) fn open(name: &Path) -> Result<Self, String> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_LOCAL)
    }

    /// A library that this process has loaded already.
    pub(crate) fn loaded(name: &Path) -> Option<Self> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_NOLOAD).ok()
    }

    fn open_with(name: &Path, flags: c_int) -> Result<Self, String> {
        let name = CString::new(name.as_os_str().as_encoded_bytes());
        let name = name.map_err(|error| error.to_string())?;
        // SAFETY: the name ends with a zero; loading runs the library's constructors, which is what
        // opening the launcher's own library means.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        if handle.is_null() {
            return Err(last_error());
        }
        Ok(Self(handle))
    }

    /// The address of a symbol; none if the library has none of this name.
    pub(crate) fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open, the name ends with a zero.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// The answer of a function such as `MPI_Initialized`, which writes a truth value.
    pub(crate) fn ask(self, name: &CStr) -> Option<bool> {
        let address = self.symbol(name)?;
        // SAFETY: callers name functions with this signature only.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn(*mut c_int) -> c_int>(address)
        };
        let mut answer: c_int = 0;
        (function(&raw mut answer) == 0).then_some(answer != 0)
    }
}

/// What the dynamic loader says of its last failure on this thread.
fn last_error() -> String {
    // SAFETY: no arguments; the text belongs to the loader until the next call on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: not null, so it is a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// Duplicates a descriptor that this process has inherited; an error if it is not open.
pub(crate) fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is borrowed for this call only, which fails cleanly on a number that is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(fcntl_dupfd_cloexec(borrowed, 3)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_in_a_library_that_is_there() {
        let library = SharedLibrary::open(Path::new("libc.so.6")).unwrap();
        assert!(library.symbol(c"getpid").is_some());
        assert!(library.symbol(c"no_such_function_of_libc").is_none());
        let reason = SharedLibrary::open(Path::new("libno-such-library.so")).unwrap_err();
        assert!(reason.contains("libno-such-library.so"), "{reason}");
        assert!(SharedLibrary::loaded(Path::new("libno-such-library.so")).is_none());
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_an_error() {
        assert!(duplicate(-1).is_err());
        assert!(duplicate(65_000).is_err());
        assert!(duplicate(0).is_ok() || duplicate(1).is_ok());
    }
}
