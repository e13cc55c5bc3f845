//! The door of every listening socket: one thread that accepts, one per connection, and nobody
//! gets further than the handshake without the job key.
//!
//! - `DOOR-1` a connection is read and told nothing else until it has proved the job key, and has
//!   five seconds to do so.
//! - `DOOR-2` at most 256 connections are in that state; one more ends the oldest, which has had
//!   far longer than an honest process needs.
//! - `DOOR-3` whatever one connection does, the others go on.
//! - `DOOR-4` stopping ends every thread, and every connection that was not kept with
//!   [`Guest::keep`].

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::deadline::{self, Socket, Timed};
use crate::{Error, JobKey, Purpose, Result, handshake};

/// How long a connection may take to prove the job key.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How many connections may be in the middle of that.
const STRANGERS: usize = 256;

/// A listening socket of any family.
pub trait Listener: AsFd + Send + Sync + 'static {
    /// Its connections.
    type Stream: Socket + Send + Sync + 'static;
    /// Waits for the next connection.
    fn next(&self) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    fn next(&self) -> io::Result<TcpStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    fn next(&self) -> io::Result<UnixStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

/// A connection that has proved the job key.
#[derive(Debug)]
pub struct Guest<S: Socket> {
    purpose: Purpose,
    number: u64,
    stream: Arc<S>,
    register: Arc<Mutex<Register<S>>>,
}

impl<S: Socket> Guest<S> {
    /// What the connection is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The connection; its timeouts are unset.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Keeps the connection open beyond the end of the [`Acceptor`].
    pub fn keep(&self) -> Arc<S> {
        lock(&self.register).remove(self.number);
        Arc::clone(&self.stream)
    }
}

/// Accepts connections until it is dropped, and has each one served by a thread of its own.
#[derive(Debug)]
pub struct Acceptor<L: Listener> {
    listener: Arc<L>,
    register: Arc<Mutex<Register<L::Stream>>>,
    thread: Option<JoinHandle<()>>,
}

/// The connections that are being served.
#[derive(Debug)]
struct Register<S> {
    stopping: bool,
    next: u64,
    /// Numbers of connections that have not proved the key yet, oldest first.
    strangers: VecDeque<u64>,
    open: Vec<Connection<S>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Connection<S> {
    number: u64,
    stream: Arc<S>,
}

/// What the accepting thread needs.
struct Door<L: Listener, F> {
    name: &'static str,
    key: JobKey,
    listener: Arc<L>,
    register: Arc<Mutex<Register<L::Stream>>>,
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
        serve: impl Fn(&Guest<L::Stream>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = Arc::new(listener);
        let register = Arc::new(Mutex::new(Register::new()));
        let door = Arc::new(Door {
            name,
            key: key.clone(),
            listener: Arc::clone(&listener),
            register: Arc::clone(&register),
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
        lock(&self.register).stopping = true;
        // A listener that is shut down wakes its `accept`. If the system refused, joining would
        // last until the next connection, so the thread is left to end with that.
        if rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both).is_ok() {
            let _ = acceptor.join();
        }
        let threads = lock(&self.register).close();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl<L: Listener> Drop for Acceptor<L> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<L: Listener, F> Door<L, F>
where
    for<'s> &'s L::Stream: Read + Write,
    F: Fn(&Guest<L::Stream>) -> Result<()> + Send + Sync + 'static,
{
    fn accept_all(self: &Arc<Self>) {
        loop {
            let accepted = self.listener.next();
            if lock(&self.register).stopping {
                return;
            }
            match accepted {
                Ok(stream) => self.admit(stream),
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "{} accepts no more connections", self.name);
                    return;
                }
            }
        }
    }

    /// Gives a new connection a thread of its own.
    fn admit(self: &Arc<Self>, stream: L::Stream) {
        let stream = Arc::new(stream);
        // Held until the thread is noted, so that the thread cannot end before.
        let mut register = lock(&self.register);
        let number = register.next;
        let (door, theirs) = (Arc::clone(self), Arc::clone(&stream));
        let name = format!("{}-{number}", self.name);
        let started = thread::Builder::new().name(name).spawn(move || {
            if let Err(error) = door.receive(number, theirs) {
                tracing::debug!(%error, "a connection to {} ended", door.name);
            }
            lock(&door.register).remove(number);
        });
        match started {
            Ok(thread) => register.add(Connection { number, stream }, thread),
            Err(error) => tracing::warn!(%error, "no thread for a connection to {}", self.name),
        }
    }

    /// Serves one connection from its first byte to its last.
    fn receive(&self, number: u64, stream: Arc<L::Stream>) -> Result<()> {
        let end = deadline::after(HANDSHAKE);
        let purpose = handshake::accept(&mut Timed::new(&*stream, end), &self.key)?;
        let doing = "preparing a connection";
        stream.limit_read(None).map_err(Error::io(doing))?;
        stream.limit_write(None).map_err(Error::io(doing))?;
        lock(&self.register).befriend(number);
        let register = Arc::clone(&self.register);
        (self.serve)(&Guest {
            purpose,
            number,
            stream,
            register,
        })
    }
}

impl<S: Socket> Register<S> {
    fn new() -> Self {
        let strangers = VecDeque::new();
        Self {
            stopping: false,
            next: 0,
            strangers,
            open: Vec::new(),
            threads: Vec::new(),
        }
    }

    fn add(&mut self, connection: Connection<S>, thread: JoinHandle<()>) {
        self.next += 1;
        self.threads.retain(|thread| !thread.is_finished());
        self.threads.push(thread);
        self.strangers.push_back(connection.number);
        self.open.push(connection);
        if self.strangers.len() > STRANGERS
            && let Some(oldest) = self.strangers.pop_front()
            && let Some(connection) = self.open.iter().find(|open| open.number == oldest)
        {
            connection.stream.hang_up();
        }
    }

    /// The connection has proved the key.
    fn befriend(&mut self, number: u64) {
        self.strangers.retain(|&stranger| stranger != number);
    }

    /// The connection is over, or no longer this register's business.
    fn remove(&mut self, number: u64) {
        self.befriend(number);
        self.open.retain(|open| open.number != number);
    }

    /// Hangs up on everybody and returns the threads that will therefore end.
    fn close(&mut self) -> Vec<JoinHandle<()>> {
        for connection in self.open.drain(..) {
            connection.stream.hang_up();
        }
        std::mem::take(&mut self.threads)
    }
}

fn lock<S>(register: &Mutex<Register<S>>) -> MutexGuard<'_, Register<S>> {
    register.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Errors of one connection attempt, after which the next may well succeed.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}
