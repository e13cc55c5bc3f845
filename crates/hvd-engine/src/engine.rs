//! The engine as its callers see it: started once the ranks are connected, asked for operations
//! from any thread, and shut down together with all other ranks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hvd_transport::{Failure, Transport};
use hvd_types::Rank;

use crate::cycle::Cycle;
use crate::handle::{Completer, Completion, Handle, Handles};
use crate::negotiate::coordinator::{Coordinator, CoordinatorOptions};
use crate::queue::{Entry, Queue};
use crate::submit::Submission;
use crate::{Error, Result};

/// What an engine is told once.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Largest fused operation in bytes; 0 turns fusion off.
    pub fusion_threshold: u64,
    /// Number of tensors whose negotiation is remembered.
    pub cache_capacity: usize,
    /// Least time between two rounds of negotiation.
    pub cycle_time: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            fusion_threshold: 128 << 20,
            cache_capacity: 1024,
            cycle_time: Duration::ZERO,
        }
    }
}

/// How the engine's communication ended, for whoever holds the connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Farewell {
    /// This rank wanted to shut down, and all do.
    Agreed,
    /// All ranks shut down because another one wanted to.
    ShutDownBy(Rank),
    /// Something failed. The others ought to be told who is to blame, or they wait for ever.
    Failed(Failure),
}

/// One rank's engine.
pub struct Engine {
    size: usize,
    kind: &'static str,
    queue: Arc<Queue>,
    handles: Handles,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the engine thread of one rank. `hosts` names the host of every rank; `farewell` is
    /// called on the engine thread when nothing is pending any more, and gets the transport back
    /// to close it.
    pub fn start(
        transport: Box<dyn Transport>,
        hosts: Vec<String>,
        options: &EngineOptions,
        farewell: impl FnOnce(Farewell, Box<dyn Transport>) + Send + 'static,
    ) -> Result<Self> {
        let (size, kind) = (transport.size(), transport.kind());
        let queue = Arc::new(Queue::new(transport.waker()));
        let coordinates = transport.rank() == Rank::COORDINATOR;
        let coordinator = coordinates.then(|| {
            Coordinator::new(CoordinatorOptions {
                hosts,
                fusion_threshold: options.fusion_threshold,
                cache_capacity: options.cache_capacity,
                cycle_time: options.cycle_time,
            })
        });
        let cycle = Cycle::new(transport, Arc::clone(&queue), coordinator);
        let thread = thread::Builder::new()
            .name("hvd-engine".to_owned())
            .spawn(move || cycle.run(farewell))
            .map_err(|error| Error::Internal(format!("cannot start the engine thread: {error}")))?;
        let thread = Mutex::new(Some(thread));
        Ok(Self {
            size,
            kind,
            queue,
            handles: Handles::default(),
            thread,
        })
    }

    /// Number of ranks in the job.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What moves the bytes between ranks.
    pub fn transport_kind(&self) -> &'static str {
        self.kind
    }

    /// Accepts an operation and returns its handle. The result comes through the handle; an error
    /// here means that nothing was started.
    pub fn submit(&self, mut submission: Submission) -> Result<Handle> {
        submission.check(self.size)?;
        let handle = self.handles.reserve();
        let request = submission.request(handle, self.size);
        let completion = Arc::new(Completion::default());
        let completer = Completer::new(&completion);
        let Submission {
            source,
            target,
            splits,
            ..
        } = submission;
        // Known before it can complete, so that a caller who sees it complete finds it.
        self.handles.insert(handle, completion);
        let entry = Entry::new(request, source, target, splits, completer);
        match self.queue.push(entry) {
            Ok(()) => Ok(handle),
            Err(error) => {
                self.handles.forget(handle);
                Err(error)
            }
        }
    }

    /// The shared end of an operation, for polling and waiting; `None` for an unknown handle.
    pub fn completion(&self, handle: Handle) -> Option<Arc<Completion>> {
        self.handles.get(handle)
    }

    /// Forgets a handle. The operation itself goes on.
    pub fn forget(&self, handle: Handle) {
        self.handles.forget(handle);
    }

    /// Ends the engine on all ranks, fails what is still pending everywhere, and returns when this
    /// rank's engine thread has ended. Harmless if it has ended already.
    pub fn shutdown(&self) {
        self.queue.request_shutdown();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic of the engine thread has been reported where it happened; its entries have
            // told their callers by being dropped.
            let _ = thread.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("size", &self.size)
            .field("transport", &self.kind)
            .finish_non_exhaustive()
    }
}
