//! How ranks learn of each other's end: a star of connections, every rank to rank 0, that carry
//! nothing but bad news, goodbyes, signs of life and questions, watched by one thread per process.
//!
//! ```text
//! kind u8 | length u16, little endian | length bytes
//! 1 goodbye    nothing
//! 2 failure    rank u32 | length of host u16 | host | reason: the rest
//! 3 alive      nothing
//! 4 question   number u32
//! 5 answer     number u32 | what was said: the rest
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
//! - `LIFE-5` a question is answered by this thread, whatever the others do; see [`StatusQuery`].

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

mod line;
mod message;
mod status_query;

pub(crate) use line::Line;
pub use status_query::{MAX_ANSWER_BYTES, SnapshotSource, StatusQuery};

use message::Message;
use status_query::Reply;

/// How long a goodbye may take that waits behind an answer.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

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
    /// Who answers questions, once there is somebody.
    source: OnceLock<SnapshotSource>,
}

#[derive(Debug)]
enum Order {
    Report(Failure),
    Ask {
        number: u32,
        ranks: Vec<Rank>,
        reply: Reply,
    },
    /// Nobody waits for this question's answers any more.
    Forget(u32),
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

impl Lifeline {
    /// Watches `lines`: those of all other ranks on rank 0, the one to rank 0 elsewhere. Nobody may
    /// be silent for longer than `limit`.
    pub(crate) fn start(lines: Vec<Line>, limit: Duration, abort: Abort) -> Result<Self> {
        let doing = "starting to watch the lifelines";
        let flag = Flag::new().map_err(Error::io(doing))?;
        let descriptors = lines.iter().map(Line::descriptor).collect();
        let orders = Arc::new(Orders {
            flag,
            queue: Mutex::default(),
            source: OnceLock::new(),
        });
        let mut watcher = Watcher {
            lines,
            abort: abort.clone(),
            orders: Arc::clone(&orders),
            limit,
            next_sign: Instant::now(),
            asked: HashMap::new(),
        };
        let thread = thread::Builder::new()
            .name("hvd-lifeline".to_owned())
            .spawn(move || watcher.run())
            .map_err(StoreError::thread("hvd-lifeline"))?;
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
    /// The questions that somebody here waits for.
    asked: HashMap<u32, Reply>,
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
                    Order::Ask {
                        number,
                        ranks,
                        reply,
                    } => self.ask(number, &ranks, reply),
                    Order::Forget(number) => drop(self.asked.remove(&number)),
                    Order::Leave => return self.leave(),
                    Order::Sever => return,
                }
            }
        }
    }

    fn leave(&mut self) {
        self.tell(None, &Message::Goodbye);
        let end = Instant::now() + GOODBYE_LIMIT;
        self.lines.iter_mut().for_each(|line| line.flush_until(end));
    }

    fn ask(&mut self, number: u32, ranks: &[Rank], reply: Reply) {
        for line in &mut self.lines {
            if ranks.contains(&line.peer) {
                line.send(&Message::Question(number));
            }
        }
        self.asked.insert(number, reply);
    }

    /// Answers the peer of a line (`LIFE-5`).
    fn answer(&mut self, index: usize, number: u32) {
        let Some(source) = self.orders.source.get() else {
            return;
        };
        // A source that panics must not take the lifelines, and so the job, with it.
        let said = catch_unwind(AssertUnwindSafe(|| source.take())).unwrap_or_default();
        self.lines[index].send(&Message::Answer { number, said });
    }

    fn hear_answer(&self, from: Rank, number: u32, said: Vec<u8>) {
        if let Some(reply) = self.asked.get(&number) {
            // Whoever asked may have given up at this moment.
            let _ = reply.send((from, said));
        }
    }

    /// Waits for orders and news; returns the lines that have some, in ascending order.
    fn sleep(&self) -> io::Result<Vec<usize>> {
        let mut polled = vec![PollFd::new(&self.orders.flag, PollFlags::IN)];
        polled.extend(
            self.lines
                .iter()
                .map(|line| PollFd::new(line, line.interest())),
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
            if self.lines[index].silence() > self.limit {
                let failure = self.lines[index].silent(self.limit);
                self.pass_on(index, failure);
                self.lines.remove(index);
            }
        }
    }

    /// Takes the news of one line; removes the line if it has ended.
    fn hear(&mut self, index: usize) {
        self.lines[index].flush();
        let open = self.lines[index].read();
        while let Some(message) = self.lines[index].next_message() {
            match message {
                Message::Alive => {}
                Message::Goodbye => {
                    let line = self.lines.remove(index);
                    return self.abort.depart(line.peer);
                }
                Message::Failure(failure) => self.pass_on(index, failure),
                Message::Question(number) => self.answer(index, number),
                Message::Answer { number, said } => {
                    self.hear_answer(self.lines[index].peer, number, said);
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
