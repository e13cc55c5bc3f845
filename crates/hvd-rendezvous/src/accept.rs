//! The door of every listening socket: one thread that accepts, one per connection, and nobody
//! gets further than the [`Gate`] without the job key.
//!
//! - `DOOR-1` a connection is read and told nothing else until it has proved the job key, and has
//!   five seconds to do so.
//! - `DOOR-2` at most 256 connections are in that state; one more ends the oldest, which has had
//!   far longer than an honest process needs.
//! - `DOOR-3` whatever one connection does, the others go on.
//! - `DOOR-4` stopping ends every thread, and every connection that was not kept with
//!   [`Guest::keep`].
//! - `DOOR-5` a process that has run out of files, memory or threads drops connections that have
//!   not proved the key and goes on accepting; the port stays open.
//! - `DOOR-6` connections that do not prove the key are counted, and reported at most once a minute
//!   ([`refusals`]).

mod gate;
mod listener;
mod refusals;
mod register;

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::deadline::{self, Socket, Timed};
use crate::{Error, JobKey, Purpose, Result, Session};
pub use gate::{Gate, Handshake, Hello, HelloOnly};
pub use listener::{Listener, is_shortage};
use refusals::Refusals;
use register::{Connection, Register};

/// How long a connection may take to prove the job key.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a door that cannot accept waits before it tries again, unless a connection ends
/// before that.
const SHORTAGE: Duration = Duration::from_millis(100);

/// A connection that has proved the job key.
#[derive(Debug)]
pub struct Guest<S, P = Session> {
    purpose: Purpose,
    number: u64,
    stream: Arc<S>,
    pass: P,
    register: Arc<Register<S>>,
}

impl<S, P> Guest<S, P> {
    /// What the connection is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The connection; its timeouts are unset.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The connection and what the gate made of it: the session that protects it.
    pub fn parts(&mut self) -> (&S, &mut P) {
        (&self.stream, &mut self.pass)
    }

    /// Keeps the connection open beyond the end of the [`Acceptor`].
    pub fn keep(self) -> (Arc<S>, P) {
        self.register.remove(self.number);
        (self.stream, self.pass)
    }
}

/// Accepts connections until it is dropped, and has each one served by a thread of its own.
#[derive(Debug)]
pub struct Acceptor<L: Listener> {
    listener: Arc<L>,
    register: Arc<Register<L::Stream>>,
    thread: Option<JoinHandle<()>>,
}

/// What the accepting thread needs.
struct Door<L: Listener, G, F> {
    name: &'static str,
    gate: G,
    listener: Arc<L>,
    register: Arc<Register<L::Stream>>,
    refusals: Refusals,
    serve: F,
}

impl<L: Listener> Acceptor<L>
where
    for<'s> &'s L::Stream: Read + Write,
{
    /// Has `serve` called for every connection whose other end knows `key`, on a thread whose
    /// name begins with `name`.
    pub fn start(
        listener: L,
        name: &'static str,
        key: &JobKey,
        serve: impl Fn(Guest<L::Stream>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::start_behind(Handshake(key.clone()), listener, name, serve)
    }

    /// As [`Self::start`], for connections that pass `gate`.
    pub fn start_behind<G: Gate<L::Stream>>(
        gate: G,
        listener: L,
        name: &'static str,
        serve: impl Fn(Guest<L::Stream, G::Pass>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = Arc::new(listener);
        let register = Arc::new(Register::new());
        let door = Arc::new(Door {
            name,
            gate,
            listener: Arc::clone(&listener),
            register: Arc::clone(&register),
            refusals: Refusals::new(name),
            serve,
        });
        let thread = thread::Builder::new()
            .name(format!("{name}-accept"))
            .spawn(move || door.accept_all())
            .map_err(Error::thread(&format!("{name}-accept")))?;
        Ok(Self {
            listener,
            register,
            thread: Some(thread),
        })
    }
}

impl<L: Listener> Acceptor<L> {
    /// Ends all connections and threads; also done on drop.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.thread.take() else {
            return;
        };
        self.register.stop();
        // A listener that is shut down wakes its `accept`. If the system refused, joining would
        // last until the next connection, so the thread is left to end with that.
        if rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both).is_ok() {
            let _ = acceptor.join();
        }
        for thread in self.register.close() {
            let _ = thread.join();
        }
    }
}

impl<L: Listener> Drop for Acceptor<L> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<L, G, F> Door<L, G, F>
where
    L: Listener,
    for<'s> &'s L::Stream: Read + Write,
    G: Gate<L::Stream>,
    F: Fn(Guest<L::Stream, G::Pass>) -> Result<()> + Send + Sync + 'static,
{
    fn accept_all(self: &Arc<Self>) {
        loop {
            let accepted = self.listener.next();
            if self.register.is_stopping() {
                return;
            }
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if listener::is_passing(&error) => {}
                Err(error) if is_shortage(&error) => {
                    self.endure(&Error::io("accepting")(error));
                }
                Err(error) => {
                    tracing::error!(%error, "{} accepts no more connections", self.name);
                    return;
                }
            }
        }
    }

    /// `DOOR-5`: makes room and waits until there may be some.
    fn endure(&self, error: &Error) {
        self.refusals.shortage(error);
        self.register.drop_oldest();
        self.register.await_end(SHORTAGE);
    }

    /// Gives a new connection a thread of its own.
    fn admit(self: &Arc<Self>, stream: L::Stream, peer: String) {
        let stream = Arc::new(stream);
        let (door, theirs) = (Arc::clone(self), Arc::clone(&stream));
        let started = self.register.admit(|number| {
            let name = format!("{}-{number}", self.name);
            let thread = thread::Builder::new().name(name).spawn(move || {
                door.receive(number, theirs, &peer);
                door.register.remove(number);
            })?;
            Ok((Connection::new(number, stream), thread))
        });
        if let Err(error) = started {
            self.endure(&Error::thread(self.name)(error));
        }
    }

    /// Serves one connection from its first byte to its last.
    fn receive(&self, number: u64, stream: Arc<L::Stream>, peer: &str) {
        match self.pass(number, stream) {
            Ok(guest) => {
                if let Err(error) = (self.serve)(guest) {
                    tracing::debug!(%error, "a connection to {} ended", self.name);
                }
            }
            Err(_) if self.register.is_stopping() => {}
            Err(_) if self.register.is_evicted(number) => {
                self.refusals.refuse(peer, &Error::Crowded);
            }
            Err(error) => self.refusals.refuse(peer, &error),
        }
    }

    /// Has a connection pass the gate (`DOOR-1`).
    fn pass(&self, number: u64, stream: Arc<L::Stream>) -> Result<Guest<L::Stream, G::Pass>> {
        let mut timed = Timed::new(&*stream, deadline::after(HANDSHAKE));
        let (purpose, pass) = self.gate.check(&mut timed)?;
        let doing = "preparing a connection";
        stream.limit_read(None).map_err(Error::io(doing))?;
        stream.limit_write(None).map_err(Error::io(doing))?;
        self.register.befriend(number);
        let register = Arc::clone(&self.register);
        Ok(Guest {
            purpose,
            number,
            stream,
            pass,
            register,
        })
    }
}

#[cfg(test)]
mod tests;
