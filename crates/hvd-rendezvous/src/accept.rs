//! Accepts the connections of every listening socket: one thread accepts, one serves each connection,
//! and a connection without the job key gets no further than the [`Authenticator`].
//!
//! - `ACCEPT-1` a connection gets nothing else read or answered until it has proved the job key, for
//!   which it has five seconds.
//! - `ACCEPT-2` at most 256 connections are in that state; one more ends the oldest, which has had
//!   far longer than an honest process needs.
//! - `ACCEPT-3` no connection can hold up the others.
//! - `ACCEPT-4` stopping ends every thread, and every connection that was not kept with
//!   [`AcceptedConnection::keep`].
//! - `ACCEPT-5` a process that has run out of files, memory or threads drops connections that have
//!   not proved the key and goes on accepting; the port stays open.
//! - `ACCEPT-6` connections that do not prove the key are counted, and reported at most once a minute
//!   ([`refusals`]).

mod authenticator;
mod listener;
mod refusals;
mod register;

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::deadline::{self, Socket, Timed};
use crate::{Error, JobKey, Purpose, Result, SecureSession};
pub use authenticator::{Authenticator, Handshake, Hello, HelloOnly};
pub use listener::{Listener, is_shortage};
pub use refusals::{Proof, Refusals};
use register::{ConnectionRegister, OpenConnection};

/// How long a connection may take to prove the job key.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failed `accept`, unless a connection ends before that.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// A connection that has proved the job key.
#[derive(Debug)]
pub struct AcceptedConnection<S, P = SecureSession> {
    purpose: Purpose,
    number: u64,
    stream: Arc<S>,
    output: P,
    register: Arc<ConnectionRegister<S>>,
}

impl<S, P> AcceptedConnection<S, P> {
    /// What the connection is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The connection; its timeouts are unset.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The connection and what the authenticator made of it: the session that protects it.
    pub fn parts(&mut self) -> (&S, &mut P) {
        (&self.stream, &mut self.output)
    }

    /// Keeps the connection open beyond the end of the [`Acceptor`].
    pub fn keep(self) -> (Arc<S>, P) {
        self.register.remove(self.number);
        (self.stream, self.output)
    }
}

/// Accepts connections until it is dropped, and has each one served by a thread of its own.
#[derive(Debug)]
pub struct Acceptor<L: Listener> {
    listener: Arc<L>,
    register: Arc<ConnectionRegister<L::Stream>>,
    thread: Option<JoinHandle<()>>,
}

/// What the accepting thread needs.
struct AcceptLoop<L: Listener, G, F> {
    name: &'static str,
    authenticator: G,
    listener: Arc<L>,
    register: Arc<ConnectionRegister<L::Stream>>,
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
        serve: impl Fn(AcceptedConnection<L::Stream>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::start_with(Handshake(key.clone()), listener, name, serve)
    }

    /// As [`Self::start`], for connections that `authenticator` lets pass.
    pub fn start_with<G: Authenticator<L::Stream>>(
        authenticator: G,
        listener: L,
        name: &'static str,
        serve: impl Fn(AcceptedConnection<L::Stream, G::Output>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = Arc::new(listener);
        let register = Arc::new(ConnectionRegister::new());
        let accept_loop = Arc::new(AcceptLoop {
            name,
            authenticator,
            listener: Arc::clone(&listener),
            register: Arc::clone(&register),
            refusals: Refusals::new(name, Proof::JobKey),
            serve,
        });
        let thread = thread::Builder::new()
            .name(format!("{name}-accept"))
            .spawn(move || accept_loop.accept_all())
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

impl<L, G, F> AcceptLoop<L, G, F>
where
    L: Listener,
    for<'s> &'s L::Stream: Read + Write,
    G: Authenticator<L::Stream>,
    F: Fn(AcceptedConnection<L::Stream, G::Output>) -> Result<()> + Send + Sync + 'static,
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
                    self.handle_shortage(&Error::io("accepting")(error));
                }
                Err(error) => {
                    tracing::error!(%error, "{} accepts no more connections", self.name);
                    return;
                }
            }
        }
    }

    /// `ACCEPT-5`: makes room and waits until there may be some.
    fn handle_shortage(&self, error: &Error) {
        self.refusals.shortage(error);
        self.register.drop_oldest();
        self.register.wait_for_end(SHORTAGE_PAUSE);
    }

    /// Gives a new connection a thread of its own.
    fn admit(self: &Arc<Self>, stream: L::Stream, peer: String) {
        let stream = Arc::new(stream);
        let (accept_loop, theirs) = (Arc::clone(self), Arc::clone(&stream));
        let started = self.register.admit(|number| {
            let name = format!("{}-{number}", self.name);
            let thread = thread::Builder::new().name(name).spawn(move || {
                accept_loop.receive(number, theirs, &peer);
                accept_loop.register.remove(number);
            })?;
            Ok((OpenConnection::new(number, stream), thread))
        });
        if let Err(error) = started {
            self.handle_shortage(&Error::thread(self.name)(error));
        }
    }

    /// Serves one connection from its first byte to its last.
    fn receive(&self, number: u64, stream: Arc<L::Stream>, peer: &str) {
        match self.authenticate(number, stream) {
            Ok(accepted) => {
                if let Err(error) = (self.serve)(accepted) {
                    tracing::debug!(%error, "a connection to {} ended", self.name);
                }
            }
            // Cut off by the end of the port; a wrong proof counts even then.
            Err(Error::Io { .. }) if self.register.is_stopping() => {}
            Err(_) if self.register.is_evicted(number) => {
                self.refusals.refuse(peer, &Error::Crowded);
            }
            Err(error) => self.refusals.refuse(peer, &error),
        }
    }

    /// Authenticates a connection (`ACCEPT-1`).
    fn authenticate(
        &self,
        number: u64,
        stream: Arc<L::Stream>,
    ) -> Result<AcceptedConnection<L::Stream, G::Output>> {
        let mut timed = Timed::new(&*stream, deadline::after(HANDSHAKE_TIMEOUT));
        let (purpose, output) = self.authenticator.check(&mut timed)?;
        let doing = "preparing a connection";
        stream.limit_read(None).map_err(Error::io(doing))?;
        stream.limit_write(None).map_err(Error::io(doing))?;
        self.register.mark_authenticated(number);
        let register = Arc::clone(&self.register);
        Ok(AcceptedConnection {
            purpose,
            number,
            stream,
            output,
            register,
        })
    }
}

#[cfg(test)]
mod tests;
