//! The launcher's store: requests of authenticated connections, answered from one board. Who may
//! connect, and that nobody can do harm to others, is the business of [`crate::accept`].

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hvd_types::Rank;

use crate::accept::{Acceptor, Guest};
use crate::board::{Board, Patience};
use crate::hang_up::HangUpWatch;
use crate::protocol::{Answer, Request};
use crate::{Error, JobKey, MemoryStore, Purpose, Result, frame};

/// A key-value store that accepts connections until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    board: Arc<Board>,
    acceptor: Acceptor<TcpListener>,
}

impl Server {
    /// Listens at `bind`, for example `127.0.0.1:0`, for processes that know `key`.
    pub fn start(bind: impl ToSocketAddrs, key: &JobKey) -> Result<Self> {
        let doing = "opening the port of the key-value store";
        let listener = TcpListener::bind(bind).map_err(Error::io(doing))?;
        let address = listener.local_addr().map_err(Error::io(doing))?;
        let board = Arc::new(Board::default());
        let shared = Arc::clone(&board);
        let waiting = Arc::clone(&board);
        let watch = HangUpWatch::start(move || waiting.wake())?;
        let acceptor = Acceptor::start(listener, "hvd-store", key, move |guest| {
            serve(&shared, &watch, guest)
        })?;
        Ok(Self {
            address,
            board,
            acceptor,
        })
    }

    /// Where the store listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leaves a value, as a client would.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.board.put(key, value)
    }

    /// The value under a name, if there is one already.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.board.look(key)
    }

    /// Fails every exchange that waits for `rank`, because its process has ended. `how` says where
    /// it ran and how it ended, as the rest of a sentence.
    pub fn end_rank(&self, rank: Rank, how: &str) {
        self.board.end_rank(rank, how);
    }

    /// The same store for users in this process.
    pub fn store(&self) -> MemoryStore {
        MemoryStore(Arc::clone(&self.board))
    }

    /// Ends all waits, connections and threads; also done on drop.
    pub fn stop(&mut self) {
        self.board.close();
        self.acceptor.stop();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Answers one client until it leaves.
fn serve(board: &Board, watch: &HangUpWatch, mut guest: Guest<TcpStream>) -> Result<()> {
    if guest.purpose() != Purpose::Store {
        return Err(Error::Malformed(
            "the connection is not meant for the key-value store",
        ));
    }
    let (socket, session) = guest.parts();
    socket
        .set_nodelay(true)
        .map_err(Error::io("preparing a connection"))?;
    let mut stream = session.over(socket);
    while let Some(message) = frame::read(&mut stream, frame::LIMIT)? {
        let request = Request::decode(&message)?;
        let hung_up = request
            .may_wait()
            .then(|| watch.watch(socket))
            .transpose()?;
        let flag = hung_up.as_ref().map(|it| Arc::clone(it.flag()));
        match answer(board, &request, flag.unwrap_or_default()) {
            Some(answer) => send(&mut stream, &answer)?,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// The answer to a request; none if the client has hung up.
fn answer(board: &Board, request: &Request<'_>, hung_up: Arc<AtomicBool>) -> Option<Answer> {
    let patience = |timeout| Patience::until_hang_up(timeout, hung_up);
    let answer = match *request {
        Request::Put { key, value } => board.put(key, value).map(|()| Answer::Done),
        Request::Get { key, timeout } => board.get(key, &patience(timeout)).map(Answer::Value),
        Request::Number => board.number().map(Answer::Number),
        Request::Leave {
            scope,
            rank,
            reason,
        } => board.leave(scope, rank, reason).map(|()| Answer::Done),
        Request::Exchange {
            scope,
            rank,
            size,
            value,
            timeout,
        } => board
            .exchange(scope, rank, size as usize, value, &patience(timeout))
            .map(Answer::Values),
    };
    Some(match answer {
        Ok(answer) => answer,
        Err(Error::HungUp) => return None,
        Err(Error::TimedOut { .. }) => Answer::TimedOut,
        Err(Error::MissingRanks { missing, .. }) => Answer::Missing(missing),
        Err(Error::Stopped) => Answer::Stopped,
        Err(Error::GaveUp { rank, reason }) => Answer::GaveUp(rank, reason),
        Err(Error::Ended { rank, reason }) => Answer::Ended(rank, reason),
        Err(Error::Refused(text)) => Answer::Refused(text),
        Err(other) => Answer::Refused(other.to_string()),
    })
}

/// Sends an answer; one that is too long becomes an error for the client instead of a closed
/// connection.
fn send(stream: &mut impl Write, answer: &Answer) -> Result<()> {
    match frame::write(stream, &answer.encode()) {
        Err(error @ Error::TooLong { .. }) => {
            frame::write(stream, &Answer::Refused(error.to_string()).encode())
        }
        outcome => outcome,
    }
}
