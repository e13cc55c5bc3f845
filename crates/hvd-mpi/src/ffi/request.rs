//! Messages under way. Those of a stream own the buffer that MPI reads or writes and give it back
//! when MPI has finished with it; a [`BorrowedSend`] reads memory of the caller's.
//!
//! - `REQ-1` a buffer is freed only after its request has completed. A request that is dropped
//!   earlier leaks its buffer: the network hardware may still use it.
//! - `REQ-2` a borrowed send that is dropped before it has completed ends the use of MPI: every later
//!   call that would move messages fails, so nothing reads the caller's memory any more.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use super::binding::{Address, CallResult, Calls};

/// A message that is being sent.
#[derive(Debug)]
pub(crate) struct Send(Owned);

/// A message that is being received.
#[derive(Debug)]
pub(crate) struct Receive(Owned);

/// A message that is being sent from memory of the caller's.
#[derive(Debug)]
pub(crate) struct BorrowedSend<'a> {
    pending: Pending,
    bytes: PhantomData<&'a [u8]>,
}

#[derive(Debug)]
struct Owned {
    pending: Pending,
    /// None once it was given back.
    buffer: Option<Box<[u8]>>,
}

#[derive(Debug)]
struct Pending {
    calls: Arc<dyn Calls>,
    request: usize,
    has_completed: bool,
}

impl Send {
    /// Starts to send the first `length` bytes of `buffer`.
    pub(crate) fn start(
        calls: &Arc<dyn Calls>,
        to: Address,
        buffer: Box<[u8]>,
        length: usize,
    ) -> CallResult<Self> {
        let count = count_of(length.min(buffer.len()));
        // SAFETY: there are at least so many bytes, and `Owned` keeps them (`REQ-1`).
        let request = unsafe { calls.issend(buffer.as_ptr(), count, to) }?;
        Ok(Self(Owned::new(calls, request, buffer)))
    }

    /// Its buffer, if the message has left.
    pub(crate) fn test(&mut self) -> CallResult<Option<Box<[u8]>>> {
        Ok(self.0.test()?.map(|(buffer, _)| buffer))
    }
}

impl Receive {
    /// Starts to receive one message of up to the buffer's length.
    pub(crate) fn start(
        calls: &Arc<dyn Calls>,
        from: Address,
        mut buffer: Box<[u8]>,
    ) -> CallResult<Self> {
        let count = count_of(buffer.len());
        // SAFETY: there are at least so many bytes, and `Owned` keeps them, unused (`REQ-1`).
        let request = unsafe { calls.irecv(buffer.as_mut_ptr(), count, from) }?;
        Ok(Self(Owned::new(calls, request, buffer)))
    }

    /// Its buffer and how many bytes were received, if the message is there.
    pub(crate) fn test(&mut self) -> CallResult<Option<(Box<[u8]>, usize)>> {
        self.0.test()
    }

    /// Asks for its end; it has completed when [`Self::test`] says so.
    pub(crate) fn cancel(&self) -> CallResult<()> {
        let Pending { calls, request, .. } = &self.0.pending;
        calls.cancel(*request)
    }
}

impl<'a> BorrowedSend<'a> {
    /// Starts to send all of `bytes`.
    pub(crate) fn start(calls: &Arc<dyn Calls>, to: Address, bytes: &'a [u8]) -> CallResult<Self> {
        // SAFETY: the bytes are borrowed for as long as this lives, and nothing reads them after it
        // (`REQ-2`).
        let request = unsafe { calls.issend(bytes.as_ptr(), count_of(bytes.len()), to) }?;
        Ok(Self {
            pending: Pending::new(calls, request),
            bytes: PhantomData,
        })
    }

    /// Whether the message has left.
    pub(crate) fn test(&mut self) -> CallResult<bool> {
        Ok(self.pending.test()?.is_some())
    }
}

impl Drop for BorrowedSend<'_> {
    fn drop(&mut self) {
        if !self.pending.has_completed {
            self.pending.calls.give_up();
        }
    }
}

impl Owned {
    fn new(calls: &Arc<dyn Calls>, request: usize, buffer: Box<[u8]>) -> Self {
        Self {
            pending: Pending::new(calls, request),
            buffer: Some(buffer),
        }
    }

    fn test(&mut self) -> CallResult<Option<(Box<[u8]>, usize)>> {
        let Some(count) = self.pending.test()? else {
            return Ok(None);
        };
        Ok(self.buffer.take().map(|buffer| {
            let count = count.min(buffer.len());
            (buffer, count)
        }))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        #[expect(clippy::mem_forget, reason = "MPI may still use it (REQ-1)")]
        mem::forget(self.buffer.take());
    }
}

impl Pending {
    fn new(calls: &Arc<dyn Calls>, request: usize) -> Self {
        Self {
            calls: Arc::clone(calls),
            request,
            has_completed: false,
        }
    }

    /// The bytes received, once, when the request has completed; 0 for a send.
    fn test(&mut self) -> CallResult<Option<usize>> {
        if self.has_completed {
            return Ok(None);
        }
        let count = self.calls.test(self.request)?;
        self.has_completed = count.is_some();
        Ok(count)
    }
}

fn count_of(bytes: usize) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}
