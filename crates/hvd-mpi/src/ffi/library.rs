//! A shared library of this process: opened by name or path, or found among those already loaded.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::NonNull;

/// A library that stays loaded until the process ends: MPI's functions are called until then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DynamicLibrary {
    handle: NonNull<c_void>,
}

// SAFETY: the handle is only passed to `dlsym`, which any thread may call.
unsafe impl Send for DynamicLibrary {}
// SAFETY: as above.
unsafe impl Sync for DynamicLibrary {}

impl DynamicLibrary {
    /// Opens a library by path, or by the name under which the loader finds it.
    ///
    /// Its symbols become visible to libraries that are loaded later, because plugins of Open MPI
    /// rely on those of `libmpi` without naming it.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        Self::load(name, libc::RTLD_NOW | libc::RTLD_GLOBAL)
    }

    /// The same, only if it is loaded already.
    pub(crate) fn find_loaded(name: &str) -> Result<Self, String> {
        Self::load(name, libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NOLOAD)
    }

    fn load(name: &str, flags: c_int) -> Result<Self, String> {
        let name = CString::new(name).map_err(|_| "the name contains a NUL".to_owned())?;
        // SAFETY: the name is a C string. Initializers of a library that the user or the system
        // provides as MPI run now, as they do in every program that is linked with it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        let Some(handle) = NonNull::new(handle) else {
            return Err(last_error());
        };
        Ok(Self { handle })
    }

    /// The address of a function or object, if the library has it.
    pub(crate) fn symbol(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the library is never closed, and the name is a C string.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        NonNull::new(address)
    }
}

fn last_error() -> String {
    // SAFETY: `dlerror` has no precondition.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it is not loaded".to_owned();
    }
    // SAFETY: the text is a C string of this thread that is valid until its next call of `dl...`.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_and_others_are_not() {
        let library = DynamicLibrary::open("libc.so.6").unwrap();
        assert!(library.symbol(c"getpid").is_some());
        assert!(library.symbol(c"MPI_Init_thread").is_none());
        assert!(DynamicLibrary::find_loaded("libc.so.6").is_ok());
        let error = DynamicLibrary::open("libmpi_of_nowhere.so").unwrap_err();
        assert!(error.contains("libmpi_of_nowhere.so"), "{error}");
        assert!(DynamicLibrary::open("nul\0").is_err());
    }
}
