//! The connections of an acceptor and the threads that serve them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::deadline::Socket;

/// How many connections may be about to prove the key.
const MAX_UNAUTHENTICATED: usize = 256;

/// All connections of one acceptor.
#[derive(Debug)]
pub(super) struct ConnectionRegister<S> {
    entries: Mutex<Entries<S>>,
    /// Told whenever a connection has ended.
    ended: Condvar,
}

#[derive(Debug)]
struct Entries<S> {
    stopping: bool,
    next: u64,
    /// Numbers of connections that have not proved the key yet, oldest first.
    unauthenticated: VecDeque<u64>,
    open: Vec<OpenConnection<S>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct OpenConnection<S> {
    number: u64,
    stream: Arc<S>,
    /// Whether it had to make room for another.
    is_evicted: bool,
}

impl<S> OpenConnection<S> {
    pub(super) fn new(number: u64, stream: Arc<S>) -> Self {
        let is_evicted = false;
        Self {
            number,
            stream,
            is_evicted,
        }
    }
}

impl<S> ConnectionRegister<S> {
    pub(super) fn new() -> Self {
        let entries = Mutex::new(Entries {
            stopping: false,
            next: 0,
            unauthenticated: VecDeque::new(),
            open: Vec::new(),
            threads: Vec::new(),
        });
        let ended = Condvar::new();
        Self { entries, ended }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<S>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.ended.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// The connection has proved the key.
    pub(super) fn mark_authenticated(&self, number: u64) {
        self.lock().mark_authenticated(number);
    }

    /// Whether the connection had to make room for another.
    pub(super) fn is_evicted(&self, number: u64) -> bool {
        let entries = self.lock();
        let mut open = entries.open.iter();
        open.any(|open| open.number == number && open.is_evicted)
    }

    /// The connection is over, or no longer this register's business.
    pub(super) fn remove(&self, number: u64) {
        let mut entries = self.lock();
        entries.mark_authenticated(number);
        entries.open.retain(|open| open.number != number);
        self.ended.notify_all();
    }

    /// Waits until some connection has ended, for at most `limit`.
    pub(super) fn wait_for_end(&self, limit: Duration) {
        let entries = self.lock();
        if !entries.stopping {
            drop(self.ended.wait_timeout(entries, limit));
        }
    }
}

impl<S: Socket> ConnectionRegister<S> {
    /// Registers a connection and its thread, which `start` starts. The register is locked meanwhile,
    /// so that the thread cannot end before it is registered.
    pub(super) fn admit(
        &self,
        start: impl FnOnce(u64) -> io::Result<(OpenConnection<S>, JoinHandle<()>)>,
    ) -> io::Result<()> {
        let mut entries = self.lock();
        let (connection, thread) = start(entries.next)?;
        entries.next += 1;
        entries.threads.retain(|thread| !thread.is_finished());
        entries.threads.push(thread);
        entries.unauthenticated.push_back(connection.number);
        entries.open.push(connection);
        if entries.unauthenticated.len() > MAX_UNAUTHENTICATED {
            entries.drop_oldest();
        }
        Ok(())
    }

    /// Hangs up on the connection that has been about to prove the key for longest.
    pub(super) fn drop_oldest(&self) {
        self.lock().drop_oldest();
    }

    /// Closes every connection and returns the threads that will therefore end.
    pub(super) fn close(&self) -> Vec<JoinHandle<()>> {
        let mut entries = self.lock();
        for connection in entries.open.drain(..) {
            connection.stream.hang_up();
        }
        std::mem::take(&mut entries.threads)
    }
}

impl<S> Entries<S> {
    fn mark_authenticated(&mut self, number: u64) {
        self.unauthenticated
            .retain(|&connection| connection != number);
    }
}

impl<S: Socket> Entries<S> {
    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.unauthenticated.pop_front()
            && let Some(connection) = self.open.iter_mut().find(|open| open.number == oldest)
        {
            connection.is_evicted = true;
            connection.stream.hang_up();
        }
    }
}
