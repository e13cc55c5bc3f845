//! How ranks learn that another one has died: a star of connections, every rank to rank 0, that
//! carry failures, goodbyes, heartbeats and status queries, watched by one thread per process.
//!
//! ```text
//! kind u8 | length u16, little endian | length bytes
//! 1 goodbye    nothing
//! 2 failure    rank u32 | length of host u16 | host | reason: the rest
//! 3 heartbeat  nothing
//! 4 query      number u32
//! 5 answer     number u32 | the answer: the rest
//! ```
//!
//! - `LIFE-1` the kernel closes a dead process's sockets at once, so a connection that ends
//!   without a goodbye is a death. Rank 0 sees those of all other ranks and forwards them; the
//!   others see that of rank 0.
//! - `LIFE-2` a rank that fails for another reason reports it the same way.
//! - `LIFE-3` a stopped process, or one behind a cut cable, keeps its sockets open and sends nothing.
//!   Both ends of a connection therefore send a few heartbeats within the heartbeat timeout, from
//!   this thread, which never blocks on anything else; a peer that sends nothing for that long has
//!   failed.
//! - `LIFE-4` between heartbeats the thread sleeps in `poll`.
//! - `LIFE-5` this thread answers status queries, whatever the others do; see [`StatusQuery`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hvd_types::Rank;
use rustix::event::{PollFd, PollFlags};

use crate::os::event::{Flag, poll};
use crate::{Abort, Error, Failure, Result, StoreError};

mod connection;
mod message;
mod status_query;

pub(crate) use connection::LifelineConnection;
pub use status_query::{MAX_ANSWER_BYTES, SnapshotSource, StatusQuery};

use message::LifelineMessage;
use status_query::Reply;

/// How long a goodbye may take that waits behind an answer.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// Heartbeats within the heartbeat timeout: one or two may be late.
const HEARTBEATS_PER_TIMEOUT: u32 = 5;

/// This process's watch over the others; leaving it says goodbye.
#[derive(Debug)]
pub struct Lifeline {
    commands: Arc<CommandQueue>,
    thread: Option<JoinHandle<()>>,
    abort: Abort,
    /// The process that the thread belongs to; a forked child has no such thread.
    process: u32,
    /// The connections' sockets.
    descriptors: Vec<RawFd>,
}

/// What other threads ask of the watcher.
#[derive(Debug)]
struct CommandQueue {
    flag: Flag,
    queue: Mutex<VecDeque<WatcherCommand>>,
    /// What answers status queries, once there is an engine.
    source: OnceLock<SnapshotSource>,
}

#[derive(Debug)]
enum WatcherCommand {
    Report(Failure),
    Ask {
        number: u32,
        ranks: Vec<Rank>,
        reply: Reply,
    },
    /// This query's answers are not wanted any more.
    Forget(u32),
    Leave,
    Sever,
}

impl CommandQueue {
    fn push(&self, command: WatcherCommand) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(command);
        self.flag.raise();
    }

    fn pop(&self) -> Option<WatcherCommand> {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}

impl Lifeline {
    /// Watches `connections`: those of all other ranks on rank 0, the one to rank 0 elsewhere.
    pub(crate) fn start(
        connections: Vec<LifelineConnection>,
        heartbeat_timeout: Duration,
        abort: Abort,
    ) -> Result<Self> {
        let doing = "starting to watch the lifelines";
        let flag = Flag::new().map_err(Error::io(doing))?;
        let descriptors = connections
            .iter()
            .map(LifelineConnection::descriptor)
            .collect();
        let commands = Arc::new(CommandQueue {
            flag,
            queue: Mutex::default(),
            source: OnceLock::new(),
        });
        let mut watcher = Watcher {
            connections,
            abort: abort.clone(),
            commands: Arc::clone(&commands),
            heartbeat_timeout,
            next_heartbeat: Instant::now(),
            asked: HashMap::new(),
        };
        let thread = thread::Builder::new()
            .name("hvd-lifeline".to_owned())
            .spawn(move || watcher.run())
            .map_err(StoreError::thread("hvd-lifeline"))?;
        Ok(Self {
            commands,
            thread: Some(thread),
            abort,
            process: std::process::id(),
            descriptors,
        })
    }

    /// The sockets that a forked child inherits. It has to close them: as long as it holds them
    /// open, the others do not learn of its parent's death (`LIFE-1`).
    pub fn descriptors(&self) -> &[RawFd] {
        &self.descriptors
    }

    /// Ends this rank's communication because of `failure`, and that of all others (`LIFE-2`).
    pub fn report(&self, failure: Failure) {
        self.abort.raise(failure.clone());
        self.commands.push(WatcherCommand::Report(failure));
    }

    /// Says goodbye and stops watching; also done on drop.
    pub fn leave(self) {
        drop(self);
    }

    /// Simulates a sudden death: the connections close without a goodbye. For tests.
    pub fn sever(mut self) {
        self.end(WatcherCommand::Sever);
    }

    fn end(&mut self, command: WatcherCommand) {
        if let Some(thread) = self.thread.take()
            && self.process == std::process::id()
        {
            self.commands.push(command);
            let _ = thread.join();
        }
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.end(WatcherCommand::Leave);
    }
}

/// The thread's own state.
struct Watcher {
    connections: Vec<LifelineConnection>,
    abort: Abort,
    commands: Arc<CommandQueue>,
    /// See `LIFE-3`.
    heartbeat_timeout: Duration,
    /// When the next heartbeat is due.
    next_heartbeat: Instant,
    /// The queries for whose answers a thread of this rank waits.
    asked: HashMap<u32, Reply>,
}

impl Watcher {
    fn run(&mut self) {
        loop {
            self.send_heartbeats();
            let ready = match self.sleep() {
                Ok(ready) => ready,
                Err(error) => {
                    tracing::error!(%error, "the lifelines are not watched any more");
                    return;
                }
            };
            // From the back, because connections are removed.
            for index in ready.into_iter().rev() {
                self.handle_input(index);
            }
            // After the input: if this process itself was stopped, heartbeats are waiting there.
            self.check_heartbeats();
            self.commands.flag.lower();
            while let Some(command) = self.commands.pop() {
                match command {
                    WatcherCommand::Report(failure) => {
                        self.broadcast(None, &LifelineMessage::Failure(failure));
                    }
                    WatcherCommand::Ask {
                        number,
                        ranks,
                        reply,
                    } => self.ask(number, &ranks, reply),
                    WatcherCommand::Forget(number) => drop(self.asked.remove(&number)),
                    WatcherCommand::Leave => return self.leave(),
                    WatcherCommand::Sever => return,
                }
            }
        }
    }

    fn leave(&mut self) {
        self.broadcast(None, &LifelineMessage::Goodbye);
        let end = Instant::now() + GOODBYE_TIMEOUT;
        self.connections
            .iter_mut()
            .for_each(|connection| connection.flush_until(end));
    }

    fn ask(&mut self, number: u32, ranks: &[Rank], reply: Reply) {
        for connection in &mut self.connections {
            if ranks.contains(&connection.peer) {
                connection.send(&LifelineMessage::Query(number));
            }
        }
        self.asked.insert(number, reply);
    }

    /// Answers the peer of a connection (`LIFE-5`).
    fn answer(&mut self, index: usize, number: u32) {
        let Some(source) = self.commands.source.get() else {
            return;
        };
        // A source that panics must not take the lifelines, and so the job, with it.
        let answer = catch_unwind(AssertUnwindSafe(|| source.take())).unwrap_or_default();
        self.connections[index].send(&LifelineMessage::Answer { number, answer });
    }

    fn deliver_answer(&self, from: Rank, number: u32, answer: Vec<u8>) {
        if let Some(reply) = self.asked.get(&number) {
            // The querying thread may have given up at this moment.
            let _ = reply.send((from, answer));
        }
    }

    /// Waits for commands and input; returns the connections that have some, in ascending order.
    fn sleep(&self) -> io::Result<Vec<usize>> {
        let mut polled = vec![PollFd::new(&self.commands.flag, PollFlags::IN)];
        polled.extend(
            self.connections
                .iter()
                .map(|connection| PollFd::new(connection, connection.interest())),
        );
        poll(&mut polled, Some(self.next_heartbeat))?;
        let ready = polled[1..].iter().enumerate();
        Ok(ready
            .filter(|(_, connection)| !connection.revents().is_empty())
            .map(|(index, _)| index)
            .collect())
    }

    fn send_heartbeats(&mut self) {
        let now = Instant::now();
        if now >= self.next_heartbeat {
            self.broadcast(None, &LifelineMessage::Heartbeat);
            self.next_heartbeat = now + self.heartbeat_timeout / HEARTBEATS_PER_TIMEOUT;
        }
    }

    fn check_heartbeats(&mut self) {
        // From the back, because connections are removed.
        for index in (0..self.connections.len()).rev() {
            if self.connections[index].since_last_message() > self.heartbeat_timeout {
                let failure = self.connections[index].timed_out(self.heartbeat_timeout);
                self.forward_failure(index, failure);
                self.connections.remove(index);
            }
        }
    }

    /// Handles the input of one connection; removes the connection if it has ended.
    fn handle_input(&mut self, index: usize) {
        self.connections[index].flush();
        let open = self.connections[index].read();
        while let Some(message) = self.connections[index].next_message() {
            match message {
                LifelineMessage::Heartbeat => {}
                LifelineMessage::Goodbye => {
                    let connection = self.connections.remove(index);
                    return self.abort.depart(connection.peer);
                }
                LifelineMessage::Failure(failure) => self.forward_failure(index, failure),
                LifelineMessage::Query(number) => self.answer(index, number),
                LifelineMessage::Answer { number, answer } => {
                    self.deliver_answer(self.connections[index].peer, number, answer);
                }
            }
        }
        if !open {
            let failure = self.connections[index].lost();
            self.forward_failure(index, failure);
            self.connections.remove(index);
        }
    }

    /// Raises a failure here and forwards it to all but the one it came from (`LIFE-1`).
    fn forward_failure(&mut self, from: usize, failure: Failure) {
        self.abort.raise(failure.clone());
        self.broadcast(Some(from), &LifelineMessage::Failure(failure));
    }

    fn broadcast(&mut self, except: Option<usize>, message: &LifelineMessage) {
        for (index, connection) in self.connections.iter_mut().enumerate() {
            if Some(index) != except {
                connection.send(message);
            }
        }
    }
}
