//! Operations of MXNet's engine: what is pushed, run and completed.
//!
//! MXNet calls the operation on a thread of its own when the arrays are ready, and deletes it after
//! its completion, or without having called it if an array's computation has failed. What completes
//! it is three words, valid beyond the call: a function, and its first two arguments.

use std::ffi::{CStr, c_int, c_void};

use hvd_types::OpKind;

use super::api::{Api, DeviceContext, api};
use super::array::RawArray;
use crate::error::{Error, Result};

/// From this version on, operations get one more argument.
const WITH_ON_START: c_int = 20_000;

/// All arrays are in host memory.
static HOST: DeviceContext = DeviceContext {
    device_type: 1,
    device: 0,
};

/// `FnProperty::kCPUPrioritized`: the queue that honours priorities.
static PRIORITIZED: c_int = 3;

type CallbackFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void);

/// `CallbackOnComplete`, and `CallbackOnStart`, whose function may be missing.
#[repr(C)]
#[derive(Clone, Copy)]
struct EngineCallback {
    callback: Option<CallbackFunction>,
    engine: *mut c_void,
    parameter: *mut c_void,
}

/// The right, and the duty, to complete an operation that MXNet has started.
pub(crate) struct PushCompletion {
    api: &'static Api,
    on_complete: EngineCallback,
}

// SAFETY: MXNet's engine lets an operation be completed from any thread.
unsafe impl Send for PushCompletion {}

impl PushCompletion {
    /// Completes the operation. An error is raised where one of its arrays is waited for.
    pub(crate) fn finish(self, result: Result<()>) {
        let Err(error) = result else {
            return self.call(std::ptr::null());
        };
        // The word before the colon is the class that Python raises.
        let text = hvd_types::printable(&error.to_string()).into_owned();
        let text = format!("{}: {text}", error_class(&error));
        self.api
            .exceptions
            .with(&text, |exception| self.call(exception));
    }

    fn call(&self, exception: *const c_void) {
        let EngineCallback {
            callback,
            engine,
            parameter,
        } = self.on_complete;
        if let Some(callback) = callback {
            // SAFETY: MXNet passed these for this one call, which `finish` makes once; it copies
            // the exception.
            unsafe { callback(engine, parameter, exception) };
        }
    }
}

/// The class by which `horovod.mxnet` has registered its errors with MXNet.
fn error_class(error: &Error) -> &'static str {
    match error {
        Error::Engine(_) => "HorovodInternalError",
        _ => "MXNetError",
    }
}

/// What MXNet needs to know about an operation.
pub(crate) struct Push<'a> {
    pub(crate) read: &'a [RawArray],
    pub(crate) written: &'a [RawArray],
    pub(crate) kind: OpKind,
    pub(crate) priority: i32,
}

/// What an operation does; it is called once.
pub(crate) type PushedFunction = Box<dyn FnOnce(PushCompletion) + Send>;

/// What travels through MXNet as an address.
struct Pushed {
    api: &'static Api,
    /// Taken when it is called.
    run: Option<PushedFunction>,
}

/// Pushes an operation, which MXNet runs when no earlier operation uses its arrays any more.
pub(crate) fn push(order: &Push<'_>, run: PushedFunction) -> Result<()> {
    let api = api()?;
    let many = |_| Error::Mxnet("too many arrays".to_owned());
    let reads = c_int::try_from(order.read.len()).map_err(many)?;
    let writes = c_int::try_from(order.written.len()).map_err(many)?;
    let function = if api.version < WITH_ON_START {
        start_v1 as *const c_void
    } else {
        start_v2 as *const c_void
    };
    let pushed = Box::into_raw(Box::new(Pushed {
        api,
        run: Some(run),
    }));
    // SAFETY: the function is the one for this version; MXNet copies the lists, the context and the
    // property during the call, and the name is static. The deleter fits the parameter.
    let code = unsafe {
        (api.functions.push)(
            function,
            pushed.cast(),
            delete,
            &raw const HOST,
            order.read.as_ptr().cast(),
            reads,
            order.written.as_ptr().cast(),
            writes,
            &raw const PRIORITIZED,
            order.priority,
            label(order.kind).as_ptr(),
            false,
        )
    };
    api.functions.check(code)
}

/// The operation's name in MXNet's profiler.
fn label(kind: OpKind) -> &'static CStr {
    match kind {
        OpKind::Allreduce => c"HorovodAllreduce",
        OpKind::Allgather => c"HorovodAllgather",
        OpKind::Broadcast => c"HorovodBroadcast",
        OpKind::Alltoall => c"HorovodAlltoall",
        OpKind::Reducescatter => c"HorovodReducescatter",
        _ => c"Horovod",
    }
}

/// The operation before 2.0.
extern "C" fn start_v1(_context: *mut c_void, on_complete: *mut c_void, pushed: *mut c_void) {
    start(on_complete, pushed);
}

/// The operation since 2.0.
extern "C" fn start_v2(
    _context: *mut c_void,
    on_start: *mut c_void,
    on_complete: *mut c_void,
    pushed: *mut c_void,
) {
    if !on_start.is_null() {
        // SAFETY: MXNet passes a valid callback, whose function may be missing.
        let on_start = unsafe { on_start.cast::<EngineCallback>().read() };
        if let Some(callback) = on_start.callback {
            // SAFETY: MXNet passed these for this call.
            unsafe { callback(on_start.engine, on_start.parameter, std::ptr::null()) };
        }
    }
    start(on_complete, pushed);
}

fn start(on_complete: *mut c_void, pushed: *mut c_void) {
    // SAFETY: MXNet passes a valid callback, which is copied as C++ copies it.
    let on_complete = unsafe { on_complete.cast::<EngineCallback>().read() };
    // SAFETY: the parameter is what `push` made; MXNet calls an operation once, and deletes its
    // parameter after it has been completed or, at the earliest, after this call has begun.
    let Pushed { api, run } = unsafe { &mut *pushed.cast::<Pushed>() };
    let completion = PushCompletion { api, on_complete };
    // Taken out first: completing the operation deletes the parameter.
    if let Some(run) = run.take() {
        run(completion);
    } else {
        completion.finish(Err(Error::Skipped));
    }
}

/// Frees the parameter of an operation.
extern "C" fn delete(pushed: *mut c_void) {
    // SAFETY: the parameter is what `push` made, and MXNet deletes it once.
    drop(unsafe { Box::from_raw(pushed.cast::<Pushed>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_is_three_words() {
        assert_eq!(size_of::<EngineCallback>(), 24);
    }

    #[test]
    fn only_the_engine_s_errors_are_the_job_s() {
        let failed = Error::Engine(hvd_engine::Error::ShutDown);
        assert_eq!(error_class(&failed), "HorovodInternalError");
        assert_eq!(error_class(&Error::Sparse), "MXNetError");
    }
}
