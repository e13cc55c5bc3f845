//! Work that may block for longer than anybody waits for it: on a thread of its own, which nobody
//! joins. The runtime's own threads would hold up the end of the process.

use std::thread;

/// Starts `work` on a thread called `name`; whoever waits for its answer has a deadline.
pub(super) fn aside(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(work) {
        tracing::warn!(%error, "no thread for {name}");
    }
}
