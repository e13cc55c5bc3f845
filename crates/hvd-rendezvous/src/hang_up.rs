//! Notices that a client closes its connection while its request waits: one thread that sleeps in
//! `epoll` over all such connections. Without it the thread and the descriptor of a client that is
//! gone would stay for as long as it had wanted to wait. Reads nothing.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::{Error, Result};

/// The number that stands for the end of the watch.
const STOP: u64 = 0;

/// Watches connections until it is dropped.
#[derive(Debug)]
pub(crate) struct HangUpWatch {
    state: Arc<WatchState>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct WatchState {
    epoll: OwnedFd,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    last: u64,
    flags: HashMap<u64, Arc<AtomicBool>>,
}

/// A connection that is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Watching<'a, S: AsFd> {
    state: &'a WatchState,
    connection: &'a S,
    number: u64,
    flag: Arc<AtomicBool>,
}

impl HangUpWatch {
    /// Starts the thread. `notify` is called on it after the flag of a connection was set.
    pub(crate) fn start(notify: impl Fn() + Send + 'static) -> Result<Self> {
        let doing = "starting to watch for clients that hang up";
        let system = |error: rustix::io::Errno| Error::io(doing)(error.into());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(system)?;
        let data = epoll::EventData::new_u64(STOP);
        epoll::add(&epoll, &stop, data, epoll::EventFlags::IN).map_err(system)?;
        let watched = Mutex::default();
        let state = Arc::new(WatchState { epoll, watched });
        let theirs = Arc::clone(&state);
        let thread = thread::Builder::new()
            .name("hvd-hang-up".to_owned())
            .spawn(move || {
                if let Err(error) = theirs.watch(&notify) {
                    tracing::error!(%error, "clients that hang up are not noticed any more");
                }
            })
            .map_err(Error::thread("hvd-hang-up"))?;
        Ok(Self {
            state,
            stop,
            thread: Some(thread),
        })
    }

    /// Watches a connection for as long as the result lives.
    pub(crate) fn watch<'a, S: AsFd>(&'a self, connection: &'a S) -> Result<Watching<'a, S>> {
        let flag = Arc::new(AtomicBool::new(false));
        let number = self.state.lock().add(&flag);
        let watching = Watching {
            state: &self.state,
            connection,
            number,
            flag,
        };
        let data = epoll::EventData::new_u64(number);
        let flags = epoll::EventFlags::RDHUP | epoll::EventFlags::ONESHOT;
        epoll::add(&self.state.epoll, connection, data, flags)
            .map_err(|error| Error::io("watching a connection")(error.into()))?;
        Ok(watching)
    }
}

impl Drop for HangUpWatch {
    fn drop(&mut self) {
        // If the system refuses, the thread is left behind rather than waited for.
        if rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

impl<S: AsFd> Watching<'_, S> {
    /// Set when the client has hung up.
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.flag
    }
}

impl<S: AsFd> Drop for Watching<'_, S> {
    fn drop(&mut self) {
        self.state.lock().flags.remove(&self.number);
        // It may never have been added.
        let _ = epoll::delete(&self.state.epoll, self.connection);
    }
}

impl Watched {
    fn add(&mut self, flag: &Arc<AtomicBool>) -> u64 {
        self.last += 1;
        self.flags.insert(self.last, Arc::clone(flag));
        self.last
    }
}

impl WatchState {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, notify: &impl Fn()) -> io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, room, None) {
                Err(rustix::io::Errno::INTR) => continue,
                outcome => outcome?,
            };
            for event in &events {
                let number = event.data.u64();
                if number == STOP {
                    return Ok(());
                }
                if let Some(flag) = self.lock().flags.get(&number) {
                    flag.store(true, Ordering::Release);
                }
            }
            notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_hang_up_is_told_and_other_connections_are_left_alone() {
        let (sender, notified) = mpsc::channel();
        let watch = HangUpWatch::start(move || sender.send(()).unwrap()).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (quiet, _other) = UnixStream::pair().unwrap();
        let (first, second) = (watch.watch(&ours).unwrap(), watch.watch(&quiet).unwrap());
        drop(theirs);
        notified.recv().unwrap();
        let is_set = |watching: &Watching<'_, _>| watching.flag().load(Ordering::Acquire);
        assert!(is_set(&first) && !is_set(&second));
        drop((first, second));
        assert!(watch.state.lock().flags.is_empty());
        // One that is closed already is noticed, too.
        let late = watch.watch(&ours).unwrap();
        notified.recv().unwrap();
        assert!(is_set(&late));
    }
}
