//! The functions of MXNet that are used, found in the library that the process has loaded. Their
//! signatures are those of `mxnet/c_api.h` from 1.8.0 to 2.0.0b1; two of them have another name
//! since 2.0, which is listed second.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use super::exception::CppExceptions;
use super::layout::Layouts;
use crate::error::{Error, Result};

/// `NDArrayHandle`
pub(super) type NdArray = *mut c_void;

/// Frees what an operation was pushed with.
pub(super) type Deleter = extern "C" fn(*mut c_void);

/// `mxnet::Context`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DeviceContext {
    pub(super) device_type: c_int,
    pub(super) device: i32,
}

/// Declares the table of functions and how it is filled.
macro_rules! functions {
    ($($field:ident = $($symbol:literal)|+: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions.
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn load(library: &LoadedLibrary) -> Result<Self> {
                Ok(Self {
                    $($field: {
                        let address = library.symbol(&[$($symbol),+])?;
                        // SAFETY: the library is MXNet's, where the symbol of this name is a
                        // function with the signature declared in this table.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> $result,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    last_error = c"MXGetLastError": fn() -> *const c_char;
    version = c"MXGetVersion": fn(*mut c_int) -> c_int;
    shallow_copy = c"MXShallowCopyNDArray": fn(NdArray, *mut NdArray) -> c_int;
    free = c"MXNDArrayFree": fn(NdArray) -> c_int;
    context = c"MXNDArrayGetContext": fn(NdArray, *mut c_int, *mut c_int) -> c_int;
    dtype = c"MXNDArrayGetDType": fn(NdArray, *mut c_int) -> c_int;
    storage_type = c"MXNDArrayGetStorageType": fn(NdArray, *mut c_int) -> c_int;
    shape = c"MXNDArrayGetShapeEx64" | c"MXNDArrayGetShape64":
        fn(NdArray, *mut c_int, *mut *const i64) -> c_int;
    data = c"MXNDArrayGetData": fn(NdArray, *mut *mut c_void) -> c_int;
    create = c"MXNDArrayCreateEx64" | c"MXNDArrayCreate64":
        fn(*const i64, c_int, c_int, c_int, c_int, c_int, *mut NdArray) -> c_int;
    push = c"MXEnginePushAsyncND":
        fn(*const c_void, *mut c_void, Deleter, *const DeviceContext, *const NdArray, c_int,
           *const NdArray, c_int, *const c_int, c_int, *const c_char, bool) -> c_int;
}

/// What is known about the loaded MXNet.
pub(super) struct Api {
    pub(super) functions: Functions,
    /// Such as 10901.
    pub(super) version: c_int,
    /// Whether operations end before the call that pushes them, and their errors are lost.
    pub(super) synchronous: bool,
    pub(super) exceptions: CppExceptions,
    pub(super) layouts: Option<Layouts>,
}

static API: OnceLock<Api> = OnceLock::new();

/// The MXNet that [`load`] has found.
pub(super) fn api() -> Result<&'static Api> {
    API.get().ok_or(Error::NotLookedFor)
}

/// Whether MXNet runs operations inside of the call that pushes them.
pub(crate) fn is_synchronous() -> bool {
    api().is_ok_and(|api| api.synchronous)
}

/// How MXNet's engine runs operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineType {
    /// On threads of its own.
    Threaded,
    /// Inside of the call that pushes them, for debugging (`NaiveEngine`).
    Naive,
}

/// Looks up MXNet's functions in the library with this path, which the process has loaded; does
/// nothing the second time. Returns MXNet's version, such as 10901.
pub fn load(path: &str, engine: EngineType) -> Result<i32> {
    if let Ok(api) = api() {
        return Ok(api.version);
    }
    let library = LoadedLibrary::find(path)?;
    let functions = Functions::load(&library)?;
    let mut version = 0;
    // SAFETY: the place is ours.
    functions.check(unsafe { (functions.version)(&raw mut version) })?;
    let layouts = Layouts::find(&library, &functions)?;
    let exceptions = CppExceptions::find(&library)?;
    let api = Api {
        functions,
        version,
        synchronous: engine == EngineType::Naive,
        exceptions,
        layouts,
    };
    Ok(API.get_or_init(|| api).version)
}

impl Functions {
    /// Turns the code that a function returned into its error.
    pub(super) fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: it takes nothing and returns a text of this thread.
        let text = unsafe { (self.last_error)() };
        // SAFETY: the text ends with a zero and stays until this thread's next error.
        let text = unsafe { CStr::from_ptr(text) };
        Err(Error::Mxnet(text.to_string_lossy().into_owned()))
    }
}

/// A library that stays loaded: Python never unloads extension modules.
pub(super) struct LoadedLibrary(*mut c_void);

impl LoadedLibrary {
    fn find(path: &str) -> Result<Self> {
        let not_loaded = || Error::NotLoaded(path.to_owned());
        let name = CString::new(path).map_err(|_| not_loaded())?;
        let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
        // SAFETY: the name ends with a zero, and no library is loaded, so no foreign code runs.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        if handle.is_null() {
            return Err(not_loaded());
        }
        Ok(Self(handle))
    }

    /// The address of the first of these symbols that there is, in the library or in one that it
    /// was linked with.
    pub(super) fn symbol(&self, names: &[&CStr]) -> Result<*mut c_void> {
        for name in names {
            // SAFETY: the handle is that of a loaded library, and the name ends with a zero.
            let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
            if !address.is_null() {
                return Ok(address);
            }
        }
        let first = names.first().map(|name| name.to_string_lossy());
        Err(Error::MissingSymbol(first.unwrap_or_default().into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_mxnet_its_library_is_named() {
        let error = load("/nowhere/libmxnet.so", EngineType::Threaded).unwrap_err();
        assert!(error.is_unusable_library());
        let text = error.to_string();
        assert!(text.contains("`/nowhere/libmxnet.so`"), "{text}");
        assert!(text.contains("import mxnet"), "{text}");
        assert!(load("a\0b", EngineType::Threaded).is_err());
        assert!(api().is_err());
    }

    #[test]
    fn a_library_that_is_not_mxnet_is_refused() {
        let error = load("libc.so.6", EngineType::Threaded)
            .unwrap_err()
            .to_string();
        assert!(error.contains("MXGetLastError"), "{error}");
    }
}
