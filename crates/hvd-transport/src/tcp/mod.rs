//! Ranks on different hosts: two connections per pair of ranks, one per lane.
//!
//! A connection that ends is not an error by itself, because a rank that leaves in peace closes
//! it too. Whether a rank died is the business of the [`crate::Lifeline`], whose news is at most
//! milliseconds behind. So:
//!
//! - `TCP-1` the end of a connection is noted; nothing moves on it any more.
//! - `TCP-2` a wait that needs that peer gives the lifeline [`GRACE`] to name the rank that failed
//!   first, and then fails with this one. Control messages are needed from rank 0, and on rank 0
//!   from everybody; whoever leaves in peace does so after the last of them.

mod close;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::Rank;
use rustix::event::{PollFd, PollFlags};

use crate::member::Member;
use crate::os::event::{Flag, poll};
use crate::{Error, Failure, Interest, Lane, Result, Transport, Wake, Waker};

/// How long a wait for a peer that closed its connection waits for the reason.
const GRACE: Duration = Duration::from_secs(1);

/// One rank's connections to all others.
#[derive(Debug)]
pub(crate) struct Tcp {
    member: Member,
    /// By rank; empty for this rank itself and those that are reached otherwise.
    peers: Vec<Option<[Connection; 2]>>,
    /// Raised by wakers and the abort.
    flag: Arc<Flag>,
    /// Kept from one wait to the next for its memory.
    wanted: Vec<Wanted>,
    /// The process whose connections these are; a forked child must not close them.
    process: u32,
}

/// A connection that a wait is about: whose, on which lane, for what.
type Wanted = (Rank, Lane, PollFlags);

/// One lane to one peer.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// When the other end was seen to be closed.
    ended: Option<Instant>,
}

impl Connection {
    /// Prepares an authenticated stream for moving bytes.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        // Buffer sizes are left to the kernel, which adapts them to the path; setting them would
        // turn that off.
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            ended: None,
        })
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        if self.ended.is_some() || bytes.is_empty() {
            return 0;
        }
        let outcome = (&self.stream).write(bytes);
        self.count(outcome)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> usize {
        if self.ended.is_some() || buffer.is_empty() {
            return 0;
        }
        match (&self.stream).read(buffer) {
            Ok(0) => self.end(),
            outcome => self.count(outcome),
        }
    }

    /// How many bytes moved; whatever is not a matter of waiting ends the connection (`TCP-1`).
    fn count(&mut self, outcome: io::Result<usize>) -> usize {
        match outcome {
            Ok(count) => count,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                0
            }
            Err(_) => self.end(),
        }
    }

    fn end(&mut self) -> usize {
        self.ended.get_or_insert_with(Instant::now);
        0
    }

    /// Notes the end of a connection of which `poll` said that the other end closed it, unless
    /// there are bytes left to read.
    fn look_for_end(&mut self) {
        match self.stream.peek(&mut [0]) {
            Ok(0) => drop(self.end()),
            outcome => drop(self.count(outcome)),
        }
    }
}

impl Tcp {
    /// Waits of this rank also end when `flag` is raised.
    pub(crate) fn new(
        member: Member,
        peers: Vec<Option<[Connection; 2]>>,
        flag: Arc<Flag>,
    ) -> Self {
        let (wanted, process) = (Vec::new(), std::process::id());
        let this = Self {
            member,
            peers,
            flag,
            wanted,
            process,
        };
        this.member.abort.on_raise(this.waker());
        this
    }

    fn connection(&mut self, peer: Rank, lane: Lane) -> Result<&mut Connection> {
        let own = self.member.rank;
        let pair = self.peers.get_mut(peer.index()).and_then(Option::as_mut);
        let pair = pair.ok_or_else(|| no_peer(own, peer))?;
        Ok(&mut pair[lane as usize])
    }

    /// Fills `wanted` with the living connections that `interest` is about.
    fn choose(&self, interest: Interest<'_>, wanted: &mut Vec<Wanted>) {
        // The other end's closing is asked for, to be told apart from bytes.
        const READ: PollFlags = PollFlags::IN.union(PollFlags::RDHUP);
        wanted.clear();
        match interest {
            Interest::Data { send, recv } => {
                wanted.extend(send.map(|peer| (peer, Lane::Data, PollFlags::OUT)));
                wanted.extend(recv.map(|peer| (peer, Lane::Data, READ)));
            }
            Interest::Control { unsent } => {
                let peers = (0..self.peers.len()).map(Rank::from_index);
                wanted.extend(peers.map(|peer| (peer, Lane::Control, READ)));
                wanted.extend(
                    unsent
                        .iter()
                        .map(|&peer| (peer, Lane::Control, PollFlags::OUT)),
                );
            }
        }
        wanted.retain(|&(peer, lane, _)| self.living(peer, lane).is_some());
    }

    fn living(&self, peer: Rank, lane: Lane) -> Option<&TcpStream> {
        let connection = &self.peers.get(peer.index())?.as_ref()?[lane as usize];
        connection.ended.is_none().then_some(&connection.stream)
    }

    /// Sleeps on `wanted` and keeps of it those connections whose other end was closed; false if
    /// the deadline passed.
    fn sleep(&self, wanted: &mut Vec<Wanted>, deadline: Option<Instant>) -> io::Result<bool> {
        let mut polled = Vec::with_capacity(1 + wanted.len());
        polled.push(PollFd::new(&*self.flag, PollFlags::IN));
        for &(peer, lane, flags) in &*wanted {
            if let Some(stream) = self.living(peer, lane) {
                polled.push(PollFd::new(stream, flags));
            }
        }
        let in_time = poll(&mut polled, deadline)?;
        if polled[0].revents().contains(PollFlags::IN) {
            self.flag.lower();
        }
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut answers = polled[1..].iter().map(PollFd::revents);
        wanted.retain(|_| {
            answers
                .next()
                .is_some_and(|answer| answer.intersects(closed))
        });
        Ok(in_time)
    }

    /// A peer that a wait needs and whose connection has ended, and since when.
    fn lost(&self, interest: Interest<'_>) -> Option<(Rank, Instant)> {
        match interest {
            Interest::Data { send, recv } => {
                let mut peers = recv.into_iter().chain(send);
                peers.find_map(|peer| self.ended(peer, Lane::Data))
            }
            // While the last words are still on their way to some, others may have left.
            Interest::Control { unsent } if !unsent.is_empty() => None,
            Interest::Control { .. } if self.member.rank == Rank::COORDINATOR => {
                (0..self.peers.len())
                    .find_map(|index| self.ended(Rank::from_index(index), Lane::Control))
            }
            Interest::Control { .. } => self.ended(Rank::COORDINATOR, Lane::Control),
        }
    }

    fn ended(&self, peer: Rank, lane: Lane) -> Option<(Rank, Instant)> {
        let pair = self.peers.get(peer.index())?.as_ref()?;
        Some((peer, pair[lane as usize].ended?))
    }

    /// `TCP-2`: nobody was named in time, so it is this peer.
    fn give_up(&self, peer: Rank) -> Result<Wake> {
        self.member.abort.raise(Failure {
            rank: peer,
            host: self.member.hosts[peer.index()].clone(),
            reason: "closed its connection while it was needed".to_owned(),
        });
        self.member.abort.check().map(|()| Wake::Event)
    }
}

impl Transport for Tcp {
    fn rank(&self) -> Rank {
        self.member.rank
    }

    fn size(&self) -> usize {
        self.member.hosts.len()
    }

    fn kind(&self) -> &'static str {
        "tcp"
    }

    fn host_of(&self, rank: Rank) -> &str {
        &self.member.hosts[rank.index()]
    }

    fn patience(&self) -> Duration {
        self.member.patience
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        let sent = self.connection(peer, lane)?.send(bytes);
        if sent == 0 {
            self.member.abort.check()?;
        }
        Ok(sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        let received = self.connection(peer, lane)?.recv(buffer);
        if received == 0 {
            self.member.abort.check()?;
        }
        Ok(received)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        self.member.abort.check()?;
        let lost = self.lost(interest);
        let end = match (deadline, lost) {
            (Some(end), Some((_, since))) => Some(end.min(since + GRACE)),
            (end, lost) => end.or(lost.map(|(_, since)| since + GRACE)),
        };
        let mut wanted = std::mem::take(&mut self.wanted);
        self.choose(interest, &mut wanted);
        let in_time = self
            .sleep(&mut wanted, end)
            .map_err(Error::io("waiting for connections"))?;
        for &(peer, lane, _) in &wanted {
            self.connection(peer, lane)?.look_for_end();
        }
        self.wanted = wanted;
        self.member.abort.check()?;
        match lost {
            Some((peer, since)) if since.elapsed() >= GRACE => self.give_up(peer),
            _ if in_time => Ok(Wake::Event),
            _ => Ok(Wake::TimedOut),
        }
    }

    fn waker(&self) -> Waker {
        let flag = Arc::downgrade(&self.flag);
        Waker::new(move || {
            if let Some(flag) = flag.upgrade() {
                flag.raise();
            }
        })
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        if self.member.abort.cause().is_none() && self.process == std::process::id() {
            let streams = self.peers.iter().flatten().flatten();
            close::in_peace(
                streams
                    .filter(|open| open.ended.is_none())
                    .map(|open| &open.stream),
            );
        }
    }
}

fn no_peer(own: Rank, peer: Rank) -> Error {
    Error::Bootstrap(format!("rank {own} has no connection to rank {peer}"))
}
