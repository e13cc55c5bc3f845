//! The functions of `libpmix` that are used, and the layout of their arguments. These have been the
//! same from PMIx 3 to 5; the standard fixes them.

#![expect(unsafe_code, reason = "the library's interface is C")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use crate::os::SharedLibrary;

/// Longest name of a job, with the zero at its end.
const NAME: usize = 256;

/// Longest key, with the zero at its end.
const KEY: usize = 512;

/// All processes of a job.
const RANK_WILDCARD: u32 = u32::MAX - 1;

/// Which processes see a value.
const SCOPE_GLOBAL: u8 = 3;

const TYPE_BOOL: u16 = 1;
const TYPE_STRING: u16 = 3;
const TYPE_UINT32: u16 = 14;

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Process {
    name: [u8; NAME],
    pub(super) rank: u32,
}

/// `pmix_value_t`, of which the members that are used are a word or less.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    data: [u64; 3],
}

/// `pmix_info_t`
#[repr(C)]
struct Info {
    key: [u8; KEY],
    flags: u32,
    value: Value,
}

const _: () =
    assert!(size_of::<Process>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);

/// Declares the table of functions and how it is filled.
macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions.
        #[derive(Clone, Copy)]
        pub(super) struct Api {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Api {
            /// Looks all functions up.
            pub(super) fn load(library: SharedLibrary) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        let address = library.symbol($symbol).ok_or_else(|| {
                            format!("it has no function `{}`", $symbol.to_string_lossy())
                        })?;
                        // SAFETY: the library is PMIx, where the symbol of this name is a function
                        // with the signature declared in this table.
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
    init = c"PMIx_Init": fn(*mut Process, *mut Info, usize) -> c_int;
    put = c"PMIx_Put": fn(u8, *const c_char, *mut Value) -> c_int;
    commit = c"PMIx_Commit": fn() -> c_int;
    fence = c"PMIx_Fence": fn(*const Process, usize, *const Info, usize) -> c_int;
    get = c"PMIx_Get": fn(*const Process, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
    finalize = c"PMIx_Finalize": fn(*const Info, usize) -> c_int;
    error_string = c"PMIx_Error_string": fn(c_int) -> *const c_char;
}

impl Process {
    fn none() -> Self {
        Self {
            name: [0; NAME],
            rank: 0,
        }
    }

    /// Another rank of the same job.
    pub(super) fn peer(&self, rank: u32) -> Self {
        Self { rank, ..*self }
    }
}

impl Api {
    fn checked(&self, function: &str, status: c_int) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: any status is allowed.
        let text = unsafe { (self.error_string)(status) };
        let text = if text.is_null() {
            "unknown".into()
        } else {
            // SAFETY: not null, so it is a constant text of the library.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy()
        };
        Err(format!("{function} failed: {text} ({status})"))
    }

    /// Connects to the launcher; which process of which job this is.
    pub(super) fn init(&self) -> Result<Process, String> {
        let mut process = Process::none();
        // SAFETY: the process is written, there is no further information.
        let status = unsafe { (self.init)(&raw mut process, ptr::null_mut(), 0) };
        self.checked("PMIx_Init", status).map(|()| process)
    }

    /// Leaves a text for the other processes of the job; they see it after a fence.
    pub(super) fn put(&self, key: &CStr, text: &str) -> Result<(), String> {
        let text = CString::new(text).map_err(|error| error.to_string())?;
        let mut value = Value {
            kind: TYPE_STRING,
            data: [text.as_ptr().expose_provenance() as u64, 0, 0],
        };
        // SAFETY: key and text end with a zero and live until the call returns, which copies them.
        let status = unsafe { (self.put)(SCOPE_GLOBAL, key.as_ptr(), &raw mut value) };
        self.checked("PMIx_Put", status)?;
        // SAFETY: no arguments.
        let status = unsafe { (self.commit)() };
        self.checked("PMIx_Commit", status)
    }

    /// Waits for all processes of the job and gathers what they have left. May never return.
    pub(super) fn fence(&self) -> Result<(), String> {
        let mut key = [0; KEY];
        let collect = c"pmix.collect".to_bytes();
        key[..collect.len()].copy_from_slice(collect);
        let info = Info {
            key,
            flags: 0,
            value: Value {
                kind: TYPE_BOOL,
                data: [1, 0, 0],
            },
        };
        // SAFETY: no processes mean all of the job; one information, which is read.
        let status = unsafe { (self.fence)(ptr::null(), 0, &raw const info, 1) };
        self.checked("PMIx_Fence", status)
    }

    /// The text that a process has left.
    pub(super) fn text(&self, process: &Process, key: &CStr) -> Result<String, String> {
        let value = self.get(process, key)?;
        if value.kind != TYPE_STRING || value.data[0] == 0 {
            return Err(format!("`{}` is not a text", key.to_string_lossy()));
        }
        let address = usize::try_from(value.data[0]).map_err(|error| error.to_string())?;
        // SAFETY: a value of this type points to a text that ends with a zero, which stays because
        // the value is never released: there is one in the life of a process.
        let text = unsafe { CStr::from_ptr(ptr::with_exposed_provenance(address)) };
        Ok(text.to_string_lossy().into_owned())
    }

    /// How many processes the job has.
    pub(super) fn job_size(&self, process: &Process) -> Result<u32, String> {
        let value = self.get(&process.peer(RANK_WILDCARD), c"pmix.job.size")?;
        match value.kind {
            TYPE_UINT32 => {
                Ok(u32::try_from(value.data[0] & u64::from(u32::MAX)).unwrap_or_default())
            }
            kind => Err(format!("the size of the job has the type {kind}")),
        }
    }

    fn get(&self, process: &Process, key: &CStr) -> Result<Value, String> {
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: process and key live until the call returns; the value is written.
        let status = unsafe {
            (self.get)(
                ptr::from_ref(process),
                key.as_ptr(),
                ptr::null(),
                0,
                &raw mut value,
            )
        };
        self.checked("PMIx_Get", status)?;
        if value.is_null() {
            return Err("PMIx_Get returned nothing".to_owned());
        }
        // SAFETY: the call has succeeded, so it points to a value.
        Ok(unsafe { *value })
    }

    /// Leaves the launcher.
    pub(super) fn finalize(&self) -> Result<(), String> {
        // SAFETY: no information.
        let status = unsafe { (self.finalize)(ptr::null(), 0) };
        self.checked("PMIx_Finalize", status)
    }
}
