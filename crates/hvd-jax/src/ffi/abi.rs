//! The structures of XLA's foreign function interface, as `xla/ffi/api/c_api.h` lays them out since
//! version 0.1 of it. Later versions append fields, and say so in `struct_size`.

use std::ffi::{c_char, c_void};

/// `XLA_FFI_Error`, of which only pointers are ever seen.
#[repr(C)]
pub(super) struct XlaError {
    _private: [u8; 0],
}

/// `XLA_FFI_Future`, likewise.
#[repr(C)]
pub(super) struct XlaFuture {
    _private: [u8; 0],
}

/// The beginning of every structure.
#[repr(C)]
pub(super) struct Header {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
}

/// `XLA_FFI_Extension_Base`: asks a handler for something other than a call.
#[repr(C)]
pub(super) struct Extension {
    pub(super) struct_size: usize,
    pub(super) kind: i32,
    pub(super) next: *mut Extension,
}

/// `XLA_FFI_Extension_Metadata`
pub(super) const METADATA: i32 = 1;

/// `XLA_FFI_Metadata_Extension`
#[repr(C)]
pub(super) struct MetadataExtension {
    pub(super) base: Extension,
    pub(super) metadata: *mut Metadata,
}

/// `XLA_FFI_Metadata`, as far as it is filled in.
#[repr(C)]
pub(super) struct Metadata {
    pub(super) struct_size: usize,
    pub(super) api_version: ApiVersion,
}

/// `XLA_FFI_Api_Version`
#[repr(C)]
pub(super) struct ApiVersion {
    pub(super) header: Header,
    pub(super) major: i32,
    pub(super) minor: i32,
}

/// `XLA_FFI_Buffer`
#[repr(C)]
pub(super) struct RawBuffer {
    pub(super) header: Header,
    pub(super) dtype: i32,
    pub(super) data: *mut c_void,
    pub(super) rank: i64,
    pub(super) dims: *const i64,
}

/// `XLA_FFI_ArgType_BUFFER` and `XLA_FFI_RetType_BUFFER`
pub(super) const BUFFER: i32 = 1;

/// `XLA_FFI_Args` and `XLA_FFI_Rets`
#[repr(C)]
pub(super) struct RawBuffers {
    pub(super) header: Header,
    pub(super) size: i64,
    pub(super) types: *const i32,
    pub(super) buffers: *const *const RawBuffer,
}

/// `XLA_FFI_Attrs`
#[repr(C)]
pub(super) struct RawAttributes {
    pub(super) header: Header,
    pub(super) size: i64,
    pub(super) types: *const i32,
    pub(super) names: *const *const ByteSpan,
    pub(super) attributes: *const *const c_void,
}

/// `XLA_FFI_ByteSpan`
#[repr(C)]
pub(super) struct ByteSpan {
    pub(super) pointer: *const u8,
    pub(super) length: usize,
}

/// `XLA_FFI_Scalar`
#[repr(C)]
pub(super) struct Scalar {
    pub(super) dtype: i32,
    pub(super) value: *const c_void,
}

/// `XLA_FFI_AttrType_SCALAR` and `XLA_FFI_AttrType_STRING`
pub(super) const SCALAR: i32 = 3;
pub(super) const STRING: i32 = 4;

/// `XLA_FFI_DataType_S64` and `XLA_FFI_DataType_F64`
pub(super) const S64: i32 = 5;
pub(super) const F64: i32 = 12;

/// `XLA_FFI_ExecutionStage_EXECUTE`
pub(super) const EXECUTE: i32 = 3;

/// `XLA_FFI_CallFrame`
#[repr(C)]
pub(super) struct CallFrame {
    pub(super) header: Header,
    pub(super) api: *const Api,
    pub(super) context: *mut c_void,
    pub(super) stage: i32,
    pub(super) arguments: RawBuffers,
    pub(super) results: RawBuffers,
    pub(super) attributes: RawAttributes,
    /// Exists if [`Api`] has the functions for it.
    pub(super) future: *mut XlaFuture,
}

/// `XLA_FFI_Error_Create_Args`
#[repr(C)]
pub(super) struct CreateError {
    pub(super) header: Header,
    pub(super) message: *const c_char,
    pub(super) code: i32,
}

/// `XLA_FFI_Future_Create_Args`, `XLA_FFI_Future_SetAvailable_Args` and, with the error,
/// `XLA_FFI_Future_SetError_Args`
#[repr(C)]
pub(super) struct FutureArguments {
    pub(super) header: Header,
    pub(super) future: *mut XlaFuture,
    pub(super) error: *mut XlaError,
}

/// A function of [`Api`] that takes its arguments as a structure.
pub(super) type ApiFunction<Arguments> = unsafe extern "C" fn(*mut Arguments) -> *mut XlaError;

/// `XLA_FFI_Api`, up to the last function that is used.
#[repr(C)]
pub(super) struct Api {
    pub(super) header: Header,
    pub(super) version: ApiVersion,
    pub(super) internal: *const c_void,
    pub(super) create_error: ApiFunction<CreateError>,
    /// Messages, registration, streams, types, state, memory, threads.
    pub(super) unused: [*const c_void; 12],
    pub(super) create_future: ApiFunction<FutureArguments>,
    pub(super) set_available: ApiFunction<FutureArguments>,
    pub(super) set_error: ApiFunction<FutureArguments>,
}
