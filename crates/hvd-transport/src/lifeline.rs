//! How ranks learn of each other's end: a star of connections, every rank to rank 0, that carry
//! nothing but bad news, goodbyes and signs of life, watched by one thread per process.
//!
//! ```text
//! kind u8 | length u16, little endian | length bytes
//! 1 goodbye    nothing
//! 2 failure    rank u32 | length of host u16 | host | reason: the rest
//! 3 alive      nothing
//! ```
//!
//! - `LIFE-1` the kernel closes a dead process's sockets at once, so a connection that ends
//!   without a goodbye is a death. Rank 0 sees those of all others and tells everybody; the
//!   others see that of rank 0.
//! - `LIFE-2` whoever fails for another reason reports it the same way.
//! - `LIFE-3` a stopped process, or one behind a cut cable, keeps its sockets open and says nothing.
//!   Both ends of a line therefore give a sign of life a few times within the limit of silence,
//!   from this thread, which never waits for anybody; whoever is silent for longer has failed.
//! - `LIFE-4` between signs of life the thread sleeps in `poll`.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hvd_types::Rank;
use rustix::event::{PollFd, PollFlags};

use crate::os::event::{Flag, poll};
use crate::os::socket::watch_for_silence;
use crate::{Abort, Error, Failure, Result};

mod message;

use message::Message;

/// How often a sign of life is given within the limit of silence: one may be late, or two.
const SIGNS_WITHIN_LIMIT: u32 = 5;

/// This process's watch over the others; leaving it says goodbye.
#[derive(Debug)]
pub struct Lifeline {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
    abort: Abort,
    /// The process that the thread belongs to; a forked child has no such thread.
    process: u32,
    /// The connections' sockets.
    descriptors: Vec<RawFd>,
}

/// What other threads want the watcher to do.
#[derive(Debug)]
struct Orders {
    flag: Flag,
    queue: Mutex<VecDeque<Order>>,
}

#[derive(Debug)]
enum Order {
    Report(Failure),
    Leave,
    Sever,
}

impl Orders {
    fn give(&self, order: Order) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(order);
        self.flag.raise();
    }

    fn next(&self) -> Option<Order> {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}

/// One authenticated connection of the star.
#[derive(Debug)]
pub(crate) struct Line {
    peer: Rank,
    host: String,
    stream: TcpStream,
    /// What has arrived of the next message.
    input: Vec<u8>,
    /// When the peer last said anything.
    heard: Instant,
}

impl Line {
    pub(crate) fn new(peer: Rank, host: String, stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        watch_for_silence(&stream)?;
        Ok(Self {
            peer,
            host,
            stream,
            input: Vec::new(),
            heard: Instant::now(),
        })
    }

    /// Reads what has arrived; false if the connection has ended.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => {
                    self.heard = Instant::now();
                    self.input.extend(&bytes[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn send(&mut self, message: &Message) {
        // A few bytes on a connection that is otherwise silent always fit into its buffer; if the
        // peer is gone there is nobody to tell.
        let _ = self.stream.write_all(&message.encode());
    }

    fn lost(&self) -> Failure {
        self.failed("closed its connection without a goodbye".to_owned())
    }

    fn silent(&self, limit: Duration) -> Failure {
        let seconds = limit.as_secs_f64();
        self.failed(format!(
            "has given no sign of life for {seconds} s (HOROVOD_GLOO_TIMEOUT_SECONDS); is it \
             suspended, or its host cut off?"
        ))
    }

    fn failed(&self, reason: String) -> Failure {
        Failure {
            rank: self.peer,
            host: self.host.clone(),
            reason,
        }
    }
}

impl Lifeline {
    /// Watches `lines`: those of all other ranks on rank 0, the one to rank 0 elsewhere. Nobody may
    /// be silent for longer than `limit`.
    pub(crate) fn start(lines: Vec<Line>, limit: Duration, abort: Abort) -> Result<Self> {
        let doing = "starting to watch the lifelines";
        let flag = Flag::new().map_err(Error::io(doing))?;
        let descriptors = lines.iter().map(|line| line.stream.as_raw_fd()).collect();
        let orders = Arc::new(Orders {
            flag,
            queue: Mutex::default(),
        });
        let mut watcher = Watcher {
            lines,
            abort: abort.clone(),
            orders: Arc::clone(&orders),
            limit,
            next_sign: Instant::now(),
        };
        let thread = thread::Builder::new()
            .name("hvd-lifeline".to_owned())
            .spawn(move || watcher.run())
            .map_err(Error::io(doing))?;
        Ok(Self {
            orders,
            thread: Some(thread),
            abort,
            process: std::process::id(),
            descriptors,
        })
    }

    /// The sockets that a forked child inherits. It has to close them: as long as it holds them
    /// open, the kernel does not tell the others of its parent's death (`LIFE-1`).
    pub fn descriptors(&self) -> &[RawFd] {
        &self.descriptors
    }

    /// Ends this rank's communication because of `failure`, and that of all others (`LIFE-2`).
    pub fn report(&self, failure: Failure) {
        self.abort.raise(failure.clone());
        self.orders.give(Order::Report(failure));
    }

    /// Says goodbye and stops watching; also done on drop.
    pub fn leave(self) {
        drop(self);
    }

    /// Acts out a sudden death: the connections close without a goodbye. For tests.
    pub fn sever(mut self) {
        self.end(Order::Sever);
    }

    fn end(&mut self, order: Order) {
        if let Some(thread) = self.thread.take()
            && self.process == std::process::id()
        {
            self.orders.give(order);
            let _ = thread.join();
        }
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.end(Order::Leave);
    }
}

/// The thread's own state.
struct Watcher {
    lines: Vec<Line>,
    abort: Abort,
    orders: Arc<Orders>,
    /// The longest silence (`LIFE-3`).
    limit: Duration,
    /// When the next sign of life is due.
    next_sign: Instant,
}

impl Watcher {
    fn run(&mut self) {
        loop {
            self.give_sign_of_life();
            let ready = match self.sleep() {
                Ok(ready) => ready,
                Err(error) => {
                    tracing::error!(%error, "the lifelines are not watched any more");
                    return;
                }
            };
            // From the back, because lines are removed.
            for index in ready.into_iter().rev() {
                self.hear(index);
            }
            // After the news: whoever was stopped itself finds it waiting here.
            self.look_for_silence();
            self.orders.flag.lower();
            while let Some(order) = self.orders.next() {
                match order {
                    Order::Report(failure) => self.tell(None, &Message::Failure(failure)),
                    Order::Leave => return self.tell(None, &Message::Goodbye),
                    Order::Sever => return,
                }
            }
        }
    }

    /// Waits for orders and news; returns the lines that have some, in ascending order.
    fn sleep(&self) -> io::Result<Vec<usize>> {
        let mut polled = vec![PollFd::new(&self.orders.flag, PollFlags::IN)];
        polled.extend(
            self.lines
                .iter()
                .map(|line| PollFd::new(&line.stream, PollFlags::IN)),
        );
        poll(&mut polled, Some(self.next_sign))?;
        let ready = polled[1..].iter().enumerate();
        Ok(ready
            .filter(|(_, line)| !line.revents().is_empty())
            .map(|(index, _)| index)
            .collect())
    }

    fn give_sign_of_life(&mut self) {
        let now = Instant::now();
        if now >= self.next_sign {
            self.tell(None, &Message::Alive);
            self.next_sign = now + self.limit / SIGNS_WITHIN_LIMIT;
        }
    }

    fn look_for_silence(&mut self) {
        // From the back, because lines are removed.
        for index in (0..self.lines.len()).rev() {
            if self.lines[index].heard.elapsed() > self.limit {
                let failure = self.lines[index].silent(self.limit);
                self.pass_on(index, failure);
                self.lines.remove(index);
            }
        }
    }

    /// Takes the news of one line; removes the line if it has ended.
    fn hear(&mut self, index: usize) {
        let line = &mut self.lines[index];
        let open = line.read();
        loop {
            let line = &mut self.lines[index];
            match Message::take(&mut line.input) {
                Ok(None) => break,
                Ok(Some(Message::Alive)) => {}
                Ok(Some(Message::Goodbye)) => return drop(self.lines.remove(index)),
                Ok(Some(Message::Failure(failure))) => self.pass_on(index, failure),
                Err(message::Malformed) => {
                    tracing::warn!(rank = %line.peer, "a lifeline carries nonsense");
                    line.input.clear();
                }
            }
        }
        if !open {
            let failure = self.lines[index].lost();
            self.pass_on(index, failure);
            self.lines.remove(index);
        }
    }

    /// Raises a failure here and tells everybody but the one it came from (`LIFE-1`).
    fn pass_on(&mut self, from: usize, failure: Failure) {
        self.abort.raise(failure.clone());
        self.tell(Some(from), &Message::Failure(failure));
    }

    fn tell(&mut self, except: Option<usize>, message: &Message) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            if Some(index) != except {
                line.send(message);
            }
        }
    }
}
