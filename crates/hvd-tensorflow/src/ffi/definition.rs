//! Ops and their kernels made known to TensorFlow.

use std::ffi::{CStr, c_void};

use super::api::{Api, TfConstruction, TfContext, TfDone, api};
use super::attributes::Attributes;
use super::call::KernelCall;
use super::done::Done;
use super::shape::ShapeRule;
use super::status::Status;
use crate::error::Result;

/// An op, in the words of `tensorflow/core/framework/op_def_builder.h`.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static CStr,
    pub(crate) attributes: &'static [&'static CStr],
    pub(crate) inputs: &'static [&'static CStr],
    pub(crate) outputs: &'static [&'static CStr],
    pub(crate) shapes: ShapeRule,
}

/// What an op does. One is made for each node of a graph, from the node's attributes.
pub(crate) trait Kernel: Sized + Send + Sync + 'static {
    const DEFINITION: Definition;

    fn new(attributes: &mut Attributes<'_>) -> Result<Self>;

    /// Begins, and returns at once. The call is finished later, from any thread.
    fn start(&self, call: KernelCall);
}

/// Registers ops with the TensorFlow that the process has loaded.
pub(crate) struct Registrar(&'static Api);

impl Registrar {
    pub(crate) fn new() -> Result<Self> {
        api().map(Self)
    }

    /// Every op is stateful: TensorFlow must neither fold, merge nor leave out a collective, which
    /// other ranks wait for.
    pub(crate) fn register<K: Kernel>(&self) -> Result<()> {
        let api = self.0;
        let definition = K::DEFINITION;
        // SAFETY: the name ends with a zero; the builder is ours until it is registered.
        let builder = unsafe { (api.new_op)(definition.name.as_ptr()) };
        let parts = [
            (api.add_attribute, definition.attributes),
            (api.add_input, definition.inputs),
            (api.add_output, definition.outputs),
        ];
        for (add, texts) in parts {
            for text in texts {
                // SAFETY: the builder is valid, and the text, which is copied, ends with a zero.
                unsafe { add(builder, text.as_ptr()) };
            }
        }
        // SAFETY: the builder is valid.
        unsafe { (api.set_stateful)(builder, true) };
        // SAFETY: the builder is valid, and the function lives as long as the program.
        unsafe { (api.set_shapes)(builder, definition.shapes.function()) };
        let status = Status::new(api);
        // SAFETY: the builder is valid; this call ends its life, whatever the status says.
        unsafe { (api.register_op)(builder, status.raw()) };
        status.check()?;
        self.register_kernel::<K>(definition.name)
    }

    fn register_kernel<K: Kernel>(&self, op: &CStr) -> Result<()> {
        let api = self.0;
        let device = c"CPU";
        // SAFETY: names end with a zero, and the functions keep the contract of the C API: what
        // `create` returns is what the other two get, and `delete` comes last.
        let builder = unsafe {
            (api.new_kernel)(
                op.as_ptr(),
                device.as_ptr(),
                create::<K>,
                compute::<K>,
                delete::<K>,
            )
        };
        let status = Status::new(api);
        // SAFETY: the builder is valid; this call ends its life.
        unsafe { (api.register_kernel)(op.as_ptr(), builder, status.raw()) };
        status.check()
    }
}

extern "C" fn create<K: Kernel>(construction: *mut TfConstruction) -> *mut c_void {
    let Ok(api) = api() else {
        return std::ptr::null_mut();
    };
    // SAFETY: TensorFlow passes a valid construction that is used by this call alone.
    let made = unsafe { &mut *construction };
    match K::new(&mut Attributes::new(api, made)) {
        Ok(kernel) => Box::into_raw(Box::new(kernel)).cast(),
        Err(error) => {
            let status = Status::of(api, &error);
            // SAFETY: as above; TensorFlow copies the status.
            unsafe { (api.construction_failure)(construction, status.raw()) };
            std::ptr::null_mut()
        }
    }
}

extern "C" fn compute<K: Kernel>(kernel: *mut c_void, context: *mut TfContext, done: *mut TfDone) {
    let Ok(api) = api() else { return };
    // SAFETY: TensorFlow passes its callback, and waits for this function.
    let done = unsafe { Done::take(api, done) };
    let call = KernelCall::new(api, context, done);
    // SAFETY: what `create` returned, which is deleted only when no call is running. A node whose
    // kernel could not be made is never run.
    let kernel = unsafe { kernel.cast::<K>().as_ref() };
    if let Some(kernel) = kernel {
        kernel.start(call);
    }
}

extern "C" fn delete<K: Kernel>(kernel: *mut c_void) {
    if !kernel.is_null() {
        // SAFETY: what `create` made from a box, deleted once.
        drop(unsafe { Box::from_raw(kernel.cast::<K>()) });
    }
}
