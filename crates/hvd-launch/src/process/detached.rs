//! Work that may block for long, beside the runtime: on a thread of its own, because the runtime
//! would wait for its own threads at the end.

use std::thread;

/// Does `work` on a thread of that name. Without a thread nothing is done, and said in the log;
/// its caller waits with a deadline.
pub(crate) fn spawn_detached(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned());
    if let Err(error) = thread.spawn(work) {
        tracing::warn!(name, %error, "cannot start a thread");
    }
}
