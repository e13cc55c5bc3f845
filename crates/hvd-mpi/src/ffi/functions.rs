//! The functions of MPI that are used, with the signatures of the MPI standard. `H` is what the
//! library's ABI passes as a handle.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use super::abi::MpiHandle;
use super::library::DynamicLibrary;

/// Room for an `MPI_Status` of every ABI; the largest has 32 bytes. Only MPI looks into it.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageStatus([u8; 128]);

impl MessageStatus {
    pub(super) const fn new() -> Self {
        Self([0; 128])
    }
}

/// Declares the table of functions and how it is filled.
macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The functions. All return an error code.
        #[derive(Debug, Clone, Copy)]
        pub(super) struct Functions<H: MpiHandle> {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<H: MpiHandle> Functions<H> {
            /// Finds all of them, or returns the name of one that the library does not have.
            pub(super) fn load(library: DynamicLibrary) -> Result<Self, &'static CStr> {
                Ok(Self {
                    $($field: {
                        let address: NonNull<c_void> = library.symbol($symbol).ok_or($symbol)?;
                        // SAFETY: the library is an MPI whose ABI passes handles as `H`, so its
                        // function of this name has the signature declared in this table.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> c_int,
                            >(address.as_ptr())
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    initialized = c"MPI_Initialized": fn(*mut c_int);
    finalized = c"MPI_Finalized": fn(*mut c_int);
    init_thread = c"MPI_Init_thread":
        fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    query_thread = c"MPI_Query_thread": fn(*mut c_int);
    finalize = c"MPI_Finalize": fn();
    abort = c"MPI_Abort": fn(H, c_int);
    library_version = c"MPI_Get_library_version": fn(*mut c_char, *mut c_int);
    error_string = c"MPI_Error_string": fn(c_int, *mut c_char, *mut c_int);
    comm_rank = c"MPI_Comm_rank": fn(H, *mut c_int);
    comm_size = c"MPI_Comm_size": fn(H, *mut c_int);
    comm_dup = c"MPI_Comm_dup": fn(H, *mut H);
    comm_set_errhandler = c"MPI_Comm_set_errhandler": fn(H, H);
    type_size = c"MPI_Type_size": fn(H, *mut c_int);
    issend = c"MPI_Issend":
        fn(*const c_void, c_int, H, c_int, c_int, H, *mut H);
    irecv = c"MPI_Irecv":
        fn(*mut c_void, c_int, H, c_int, c_int, H, *mut H);
    test = c"MPI_Test": fn(*mut H, *mut c_int, *mut MessageStatus);
    cancel = c"MPI_Cancel": fn(*mut H);
    get_count = c"MPI_Get_count": fn(*const MessageStatus, H, *mut c_int);
}
