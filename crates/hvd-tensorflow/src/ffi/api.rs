//! The functions of TensorFlow's C API that are used, found in the library that the process has
//! loaded. Their signatures are those of `tensorflow/c/{kernels,ops,tf_status,tf_tensor}.h`, which
//! have not changed since 2.13, the first version with asynchronous kernels.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The library of TensorFlow's wheels that exports the C API.
const LIBRARY: &CStr = c"libtensorflow_framework.so.2";
const LIBRARY_NAME: &str = "libtensorflow_framework.so.2";

/// Declares types of which only pointers are ever seen.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[repr(C)] pub(super) struct $name { _private: [u8; 0] })*
    };
}

opaque! {
    /// `TF_Status`
    TfStatus;
    /// `TF_Tensor`
    TfTensor;
    /// `TF_OpKernelContext`
    TfContext;
    /// `TF_OpKernelConstruction`
    TfConstruction;
    /// `TF_OpDefinitionBuilder`
    TfOpBuilder;
    /// `TF_KernelBuilder`
    TfKernelBuilder;
    /// `TF_ShapeInferenceContext`
    TfShapeContext;
    /// `TF_ShapeHandle`
    TfShape;
    /// `TF_AsyncOpKernelDoneCallback`
    TfDone;
}

/// `TF_StringView`
#[repr(C)]
pub(super) struct TfStringView {
    pub(super) data: *const c_char,
    pub(super) len: usize,
}

/// Makes a kernel.
pub(super) type Create = extern "C" fn(*mut TfConstruction) -> *mut c_void;
/// Starts a kernel.
pub(super) type Compute = extern "C" fn(*mut c_void, *mut TfContext, *mut TfDone);
/// Deletes a kernel.
pub(super) type Delete = extern "C" fn(*mut c_void);
/// Infers shapes.
pub(super) type InferShapes = extern "C" fn(*mut TfShapeContext, *mut TfStatus);

/// Declares the table of functions and how it is filled.
macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions.
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            fn load(library: &Library) -> Result<Self> {
                Ok(Self {
                    $($field: {
                        let address = library.symbol($symbol)?;
                        // SAFETY: the library is TensorFlow's, where the symbol of this name is a
                        // function with the signature declared in this table.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    new_status = c"TF_NewStatus": fn() -> *mut TfStatus;
    delete_status = c"TF_DeleteStatus": fn(*mut TfStatus);
    set_status = c"TF_SetStatus": fn(*mut TfStatus, c_int, *const c_char);
    get_code = c"TF_GetCode": fn(*const TfStatus) -> c_int;
    message = c"TF_Message": fn(*const TfStatus) -> *const c_char;
    tensor_type = c"TF_TensorType": fn(*const TfTensor) -> c_int;
    num_dims = c"TF_NumDims": fn(*const TfTensor) -> c_int;
    dim = c"TF_Dim": fn(*const TfTensor, c_int) -> i64;
    tensor_data = c"TF_TensorData": fn(*const TfTensor) -> *mut c_void;
    tensor_byte_size = c"TF_TensorByteSize": fn(*const TfTensor) -> usize;
    delete_tensor = c"TF_DeleteTensor": fn(*mut TfTensor);
    new_op = c"TF_NewOpDefinitionBuilder": fn(*const c_char) -> *mut TfOpBuilder;
    add_attribute = c"TF_OpDefinitionBuilderAddAttr": fn(*mut TfOpBuilder, *const c_char);
    add_input = c"TF_OpDefinitionBuilderAddInput": fn(*mut TfOpBuilder, *const c_char);
    add_output = c"TF_OpDefinitionBuilderAddOutput": fn(*mut TfOpBuilder, *const c_char);
    set_stateful = c"TF_OpDefinitionBuilderSetIsStateful": fn(*mut TfOpBuilder, bool);
    set_shapes = c"TF_OpDefinitionBuilderSetShapeInferenceFunction": fn(*mut TfOpBuilder, InferShapes);
    register_op = c"TF_RegisterOpDefinition": fn(*mut TfOpBuilder, *mut TfStatus);
    new_kernel = c"TF_NewAsyncKernelBuilder":
        fn(*const c_char, *const c_char, Create, Compute, Delete) -> *mut TfKernelBuilder;
    register_kernel = c"TF_RegisterKernelBuilder":
        fn(*const c_char, *mut TfKernelBuilder, *mut TfStatus);
    node_name = c"TF_OpKernelConstruction_GetName": fn(*mut TfConstruction) -> TfStringView;
    attribute_size = c"TF_OpKernelConstruction_GetAttrSize":
        fn(*mut TfConstruction, *const c_char, *mut i32, *mut i32, *mut TfStatus);
    attribute_string = c"TF_OpKernelConstruction_GetAttrString":
        fn(*mut TfConstruction, *const c_char, *mut c_char, usize, *mut TfStatus);
    attribute_int = c"TF_OpKernelConstruction_GetAttrInt64":
        fn(*mut TfConstruction, *const c_char, *mut i64, *mut TfStatus);
    attribute_float = c"TF_OpKernelConstruction_GetAttrFloat":
        fn(*mut TfConstruction, *const c_char, *mut f32, *mut TfStatus);
    attribute_bool = c"TF_OpKernelConstruction_GetAttrBool":
        fn(*mut TfConstruction, *const c_char, *mut u8, *mut TfStatus);
    construction_failure = c"TF_OpKernelConstruction_Failure":
        fn(*mut TfConstruction, *mut TfStatus);
    num_inputs = c"TF_NumInputs": fn(*mut TfContext) -> c_int;
    get_input = c"TF_GetInput":
        fn(*mut TfContext, c_int, *mut *mut TfTensor, *mut TfStatus);
    allocate_output = c"TF_AllocateOutput":
        fn(*mut TfContext, c_int, c_int, *const i64, c_int, usize, *mut TfStatus) -> *mut TfTensor;
    forward_or_allocate = c"TF_ForwardInputOrAllocateOutput":
        fn(*mut TfContext, *const c_int, c_int, c_int, *const i64, c_int, *mut c_int, *mut TfStatus)
            -> *mut TfTensor;
    context_failure = c"TF_OpKernelContext_Failure": fn(*mut TfContext, *mut TfStatus);
    run_done = c"TF_RunAsyncOpKernelDoneCallback": fn(*mut TfDone);
    shape_inputs = c"TF_ShapeInferenceContextNumInputs": fn(*mut TfShapeContext) -> i64;
    new_shape = c"TF_NewShapeHandle": fn() -> *mut TfShape;
    delete_shape = c"TF_DeleteShapeHandle": fn(*mut TfShape);
    input_shape = c"TF_ShapeInferenceContextGetInput":
        fn(*mut TfShapeContext, c_int, *mut TfShape, *mut TfStatus);
    set_output_shape = c"TF_ShapeInferenceContextSetOutput":
        fn(*mut TfShapeContext, c_int, *mut TfShape, *mut TfStatus);
    scalar_shape = c"TF_ShapeInferenceContextScalar": fn(*mut TfShapeContext) -> *mut TfShape;
    vector_shape = c"TF_ShapeInferenceContextVectorFromSize":
        fn(*mut TfShapeContext, usize) -> *mut TfShape;
    rank_known = c"TF_ShapeInferenceContextRankKnown":
        fn(*mut TfShapeContext, *mut TfShape) -> c_int;
    rank = c"TF_ShapeInferenceContextRank": fn(*mut TfShapeContext, *mut TfShape) -> i64;
    subshape = c"TF_ShapeInferenceContextSubshape":
        fn(*mut TfShapeContext, *mut TfShape, i64, i64, *mut TfShape, *mut TfStatus);
    concatenate_shapes = c"TF_ShapeInferenceContextConcatenateShapes":
        fn(*mut TfShapeContext, *mut TfShape, *mut TfShape, *mut TfShape, *mut TfStatus);
}

/// The table, once it is filled.
static API: OnceLock<Api> = OnceLock::new();

/// The functions of the TensorFlow that the process has loaded.
pub(super) fn api() -> Result<&'static Api> {
    if let Some(api) = API.get() {
        return Ok(api);
    }
    let api = Api::load(&Library::find()?)?;
    Ok(API.get_or_init(|| api))
}

/// A library that stays loaded: Python never unloads extension modules.
struct Library(*mut c_void);

impl Library {
    fn find() -> Result<Self> {
        let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
        // SAFETY: the name ends with a zero, and no library is loaded, so no foreign code runs.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), flags) };
        if handle.is_null() {
            return Err(Error::NotLoaded {
                library: LIBRARY_NAME,
            });
        }
        Ok(Self(handle))
    }

    fn symbol(&self, name: &CStr) -> Result<*mut c_void> {
        // SAFETY: the handle is that of a loaded library, and the name ends with a zero.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if address.is_null() {
            return Err(Error::MissingSymbol {
                library: LIBRARY_NAME,
                symbol: name.to_string_lossy().into_owned(),
            });
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tensorflow_its_library_is_named() {
        let error = api().err().unwrap().to_string();
        assert!(error.contains(LIBRARY_NAME), "{error}");
        assert!(error.contains("import tensorflow"), "{error}");
    }
}
