//! MPI's functions as safe calls on any ABI: [`Calls`] is what the rest of the crate sees, a
//! [`Binding`] is one library's table of functions and its constants.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::abi::{self, Abi, Constants, MpiHandle};
use super::functions::{Functions, MessageStatus};
use super::library::DynamicLibrary;
use crate::error::CallError;
use crate::thread_level::ThreadLevel;

/// Room for the longest text that MPI returns, `MPI_MAX_LIBRARY_VERSION_STRING` of MPICH.
const LONGEST_TEXT: usize = 8192;

/// What is returned by calls.
pub(crate) type CallResult<T> = std::result::Result<T, CallError>;

/// Calls of one MPI library. Communicators and requests are words that its own calls returned.
///
/// Which calls are allowed when, and on which threads, is MPI's rule and the caller's business; a
/// call at the wrong time makes MPI end the process, and is never a matter of memory.
pub(crate) trait Calls: Send + Sync + fmt::Debug {
    fn is_initialized(&self) -> CallResult<bool>;
    fn is_finalized(&self) -> CallResult<bool>;
    /// Initializes MPI and returns what it provides.
    fn initialize(&self, wanted: ThreadLevel) -> CallResult<ThreadLevel>;
    fn thread_level(&self) -> CallResult<ThreadLevel>;
    fn finalize(&self) -> CallResult<()>;
    /// Ends all processes of the job, this one included, unless MPI cannot.
    fn abort(&self, code: c_int);
    /// The library's name and version, in its own words.
    fn version(&self) -> String;
    fn rank(&self) -> CallResult<c_int>;
    fn size(&self) -> CallResult<c_int>;
    /// The size of `MPI_BYTE`: anything but 1 shows a wrong table of constants.
    fn byte_size(&self) -> CallResult<c_int>;
    /// Has errors of `MPI_COMM_WORLD` returned, instead of ending the process.
    fn return_errors(&self) -> CallResult<()>;
    /// A communicator of all ranks for the caller alone. Every rank must call it.
    fn duplicate_world(&self) -> CallResult<usize>;
    /// Starts to send `length` bytes. The request completes only after the peer has begun to receive,
    /// so nothing of the message waits in this process for another call of MPI.
    ///
    /// # Safety
    /// The bytes must stay readable until the request has completed.
    unsafe fn issend(&self, bytes: *const u8, length: c_int, to: Address) -> CallResult<usize>;
    /// Starts to receive up to `length` bytes.
    ///
    /// # Safety
    /// The bytes must stay writable, and untouched by others, until the request has completed.
    unsafe fn irecv(&self, bytes: *mut u8, length: c_int, from: Address) -> CallResult<usize>;
    /// The number of bytes received if the request has completed, after which it is gone; 0 for a
    /// send.
    fn test(&self, request: usize) -> CallResult<Option<usize>>;
    /// Asks for the end of a receive that nothing has been received for.
    fn cancel(&self, request: usize) -> CallResult<()>;
    /// Has all later calls that would move messages fail, in this process and for ever.
    fn give_up(&self);
}

/// One side of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address {
    /// What [`Calls::duplicate_world`] returned.
    pub(crate) communicator: usize,
    pub(crate) peer: c_int,
    pub(crate) tag: c_int,
}

/// The calls of a library with this ABI; the name of a symbol that it lacks otherwise.
pub(crate) fn bind(library: DynamicLibrary, abi: Abi) -> Result<Arc<dyn Calls>, &'static CStr> {
    Ok(match abi {
        Abi::OpenMpi => Arc::new(Binding::new(library, abi::open_mpi(library)?)?),
        Abi::Mpich => Arc::new(Binding::new(library, abi::MPICH)?),
        Abi::Standard => Arc::new(Binding::new(library, abi::STANDARD)?),
    })
}

#[derive(Debug)]
struct Binding<H: MpiHandle> {
    functions: Functions<H>,
    constants: Constants<H>,
    given_up: AtomicBool,
}

impl<H: MpiHandle> Binding<H> {
    fn new(library: DynamicLibrary, constants: Constants<H>) -> Result<Self, &'static CStr> {
        Ok(Self {
            functions: Functions::load(library)?,
            constants,
            given_up: AtomicBool::new(false),
        })
    }

    /// Fails after [`Calls::give_up`].
    fn check_use(&self, function: &'static str) -> CallResult<()> {
        if self.given_up.load(Ordering::Acquire) {
            let text = "MPI is not used any more after a failed operation".to_owned();
            return Err(CallError { function, text });
        }
        Ok(())
    }

    fn check(&self, function: &'static str, code: c_int) -> CallResult<()> {
        // `MPI_SUCCESS` is 0 in every ABI.
        if code == 0 {
            return Ok(());
        }
        let text = read_text(|text, length| {
            // SAFETY: both pointers are writable, the text for more than MPI_MAX_ERROR_STRING.
            unsafe { (self.functions.error_string)(code, text, length) }
        });
        Err(CallError { function, text })
    }

    /// A call that returns one number.
    fn number(
        &self,
        function: &'static str,
        call: impl FnOnce(*mut c_int) -> c_int,
    ) -> CallResult<c_int> {
        let mut number = 0;
        let code = call(&raw mut number);
        self.check(function, code).map(|()| number)
    }

    fn level(&self, number: c_int) -> ThreadLevel {
        if number >= self.constants.multiple {
            ThreadLevel::Multiple
        } else if number >= self.constants.serialized {
            ThreadLevel::Serialized
        } else {
            ThreadLevel::OneThread
        }
    }
}

impl<H: MpiHandle> Calls for Binding<H> {
    fn is_initialized(&self) -> CallResult<bool> {
        let flag = self.number("MPI_Initialized", |flag| {
            // SAFETY: the pointer is writable; this may be called at any time.
            unsafe { (self.functions.initialized)(flag) }
        })?;
        Ok(flag != 0)
    }

    fn is_finalized(&self) -> CallResult<bool> {
        let flag = self.number("MPI_Finalized", |flag| {
            // SAFETY: the pointer is writable; this may be called at any time.
            unsafe { (self.functions.finalized)(flag) }
        })?;
        Ok(flag != 0)
    }

    fn initialize(&self, wanted: ThreadLevel) -> CallResult<ThreadLevel> {
        let wanted = match wanted {
            ThreadLevel::Multiple => self.constants.multiple,
            ThreadLevel::Serialized | ThreadLevel::OneThread => self.constants.serialized,
        };
        let none = std::ptr::null_mut();
        let provided = self.number("MPI_Init_thread", |provided| {
            // SAFETY: the pointer is writable, and null stands for no arguments of the program.
            unsafe { (self.functions.init_thread)(none, std::ptr::null_mut(), wanted, provided) }
        })?;
        Ok(self.level(provided))
    }

    fn thread_level(&self) -> CallResult<ThreadLevel> {
        let provided = self.number("MPI_Query_thread", |provided| {
            // SAFETY: the pointer is writable.
            unsafe { (self.functions.query_thread)(provided) }
        })?;
        Ok(self.level(provided))
    }

    fn finalize(&self) -> CallResult<()> {
        // SAFETY: it takes nothing.
        let code = unsafe { (self.functions.finalize)() };
        self.check("MPI_Finalize", code)
    }

    fn abort(&self, code: c_int) {
        // SAFETY: the handle is that of this library.
        unsafe { (self.functions.abort)(self.constants.world, code) };
    }

    fn version(&self) -> String {
        read_text(|text, length| {
            // SAFETY: both pointers are writable, the text for MPI_MAX_LIBRARY_VERSION_STRING.
            unsafe { (self.functions.library_version)(text, length) }
        })
    }

    fn rank(&self) -> CallResult<c_int> {
        self.number("MPI_Comm_rank", |rank| {
            // SAFETY: the handle is that of this library, and the pointer is writable.
            unsafe { (self.functions.comm_rank)(self.constants.world, rank) }
        })
    }

    fn size(&self) -> CallResult<c_int> {
        self.number("MPI_Comm_size", |size| {
            // SAFETY: the handle is that of this library, and the pointer is writable.
            unsafe { (self.functions.comm_size)(self.constants.world, size) }
        })
    }

    fn byte_size(&self) -> CallResult<c_int> {
        self.number("MPI_Type_size", |size| {
            // SAFETY: the handle is that of this library, and the pointer is writable.
            unsafe { (self.functions.type_size)(self.constants.byte, size) }
        })
    }

    fn return_errors(&self) -> CallResult<()> {
        let Constants {
            world,
            errors_return,
            ..
        } = self.constants;
        // SAFETY: the handles are those of this library.
        let code = unsafe { (self.functions.comm_set_errhandler)(world, errors_return) };
        self.check("MPI_Comm_set_errhandler", code)
    }

    fn duplicate_world(&self) -> CallResult<usize> {
        let mut copy = self.constants.no_communicator;
        // SAFETY: the handle is that of this library, and the pointer is writable.
        let code = unsafe { (self.functions.comm_dup)(self.constants.world, &raw mut copy) };
        self.check("MPI_Comm_dup", code)?;
        let errors_return = self.constants.errors_return;
        // SAFETY: the handles are those of this library.
        let code = unsafe { (self.functions.comm_set_errhandler)(copy, errors_return) };
        self.check("MPI_Comm_set_errhandler", code)?;
        Ok(copy.word())
    }

    unsafe fn issend(&self, bytes: *const u8, length: c_int, to: Address) -> CallResult<usize> {
        self.check_use("MPI_Issend")?;
        let mut request = self.constants.no_request;
        let communicator = H::of_word(to.communicator);
        // SAFETY: the handles are those of this library, the caller answers for the bytes, and the
        // pointer to the request is writable.
        let code = unsafe {
            (self.functions.issend)(
                bytes.cast(),
                length,
                self.constants.byte,
                to.peer,
                to.tag,
                communicator,
                &raw mut request,
            )
        };
        self.check("MPI_Issend", code)?;
        Ok(request.word())
    }

    unsafe fn irecv(&self, bytes: *mut u8, length: c_int, from: Address) -> CallResult<usize> {
        self.check_use("MPI_Irecv")?;
        let mut request = self.constants.no_request;
        let communicator = H::of_word(from.communicator);
        // SAFETY: as for `issend`.
        let code = unsafe {
            (self.functions.irecv)(
                bytes.cast(),
                length,
                self.constants.byte,
                from.peer,
                from.tag,
                communicator,
                &raw mut request,
            )
        };
        self.check("MPI_Irecv", code)?;
        Ok(request.word())
    }

    fn test(&self, request: usize) -> CallResult<Option<usize>> {
        self.check_use("MPI_Test")?;
        let mut request = H::of_word(request);
        let (mut flag, mut status) = (0, MessageStatus::new());
        // SAFETY: the request is one of this library's, and all pointers are writable.
        let code =
            unsafe { (self.functions.test)(&raw mut request, &raw mut flag, &raw mut status) };
        self.check("MPI_Test", code)?;
        if flag == 0 {
            return Ok(None);
        }
        let count = self.number("MPI_Get_count", |count| {
            // SAFETY: the status was written by the library, and the pointer is writable.
            unsafe { (self.functions.get_count)(&raw const status, self.constants.byte, count) }
        })?;
        Ok(Some(usize::try_from(count).unwrap_or(0)))
    }

    fn cancel(&self, request: usize) -> CallResult<()> {
        self.check_use("MPI_Cancel")?;
        let mut request = H::of_word(request);
        // SAFETY: the request is one of this library's, and the pointer is writable.
        let code = unsafe { (self.functions.cancel)(&raw mut request) };
        self.check("MPI_Cancel", code)
    }

    fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }
}

/// What a call writes as text.
fn read_text(call: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
    let mut text = vec![0_u8; LONGEST_TEXT + 1];
    let mut length = 0;
    call(text.as_mut_ptr().cast(), &raw mut length);
    let length = usize::try_from(length).unwrap_or(0).min(LONGEST_TEXT);
    let text = String::from_utf8_lossy(&text[..length]);
    let text = text.trim_end_matches('\0').trim();
    text.to_owned()
}
