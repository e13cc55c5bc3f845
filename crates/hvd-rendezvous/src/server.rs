//! The launcher's store: requests of authenticated connections, answered from one board. Who may
//! connect, and that nobody can do harm to others, is the business of [`crate::accept`].

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;

use crate::accept::{Acceptor, Guest};
use crate::board::Board;
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
        let acceptor = Acceptor::start(listener, "hvd-store", key, move |guest| {
            serve(&shared, guest)
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
fn serve(board: &Board, mut guest: Guest<TcpStream>) -> Result<()> {
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
        let answer = answer(board, &Request::decode(&message)?);
        send(&mut stream, &answer)?;
    }
    Ok(())
}

fn answer(board: &Board, request: &Request<'_>) -> Answer {
    let answer = match *request {
        Request::Put { key, value } => board.put(key, value).map(|()| Answer::Done),
        Request::Get { key, timeout } => board.get(key, timeout).map(Answer::Value),
        Request::Exchange {
            scope,
            rank,
            size,
            value,
            timeout,
        } => board
            .exchange(scope, rank, size as usize, value, timeout)
            .map(Answer::Values),
    };
    answer.unwrap_or_else(|error| match error {
        Error::TimedOut { .. } => Answer::TimedOut,
        Error::MissingRanks { missing, .. } => Answer::Missing(missing),
        Error::Stopped => Answer::Stopped,
        Error::Refused(text) => Answer::Refused(text),
        other => Answer::Refused(other.to_string()),
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
