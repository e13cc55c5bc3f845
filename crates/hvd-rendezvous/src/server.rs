//! Serves the launcher's key-value store to authenticated connections. Authentication and limits are in
//! [`crate::accept`].

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hvd_types::Rank;

use crate::accept::{AcceptedConnection, Acceptor};
use crate::hang_up::HangUpWatch;
use crate::protocol::{StoreRequest, StoreResponse};
use crate::shared_store::{SharedStore, WaitLimit};
use crate::{Error, JobKey, MemoryStore, Purpose, Result, frame};

/// A key-value store that accepts connections until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    store: Arc<SharedStore>,
    acceptor: Acceptor<TcpListener>,
}

impl Server {
    /// Listens at `bind`, for example `127.0.0.1:0`, for processes that know `key`.
    pub fn start(bind: impl ToSocketAddrs, key: &JobKey) -> Result<Self> {
        let doing = "opening the port of the key-value store";
        let listener = TcpListener::bind(bind).map_err(Error::io(doing))?;
        let address = listener.local_addr().map_err(Error::io(doing))?;
        let store = Arc::new(SharedStore::default());
        let shared = Arc::clone(&store);
        let waiting = Arc::clone(&store);
        let watch = HangUpWatch::start(move || waiting.wake())?;
        let acceptor = Acceptor::start(listener, "hvd-store", key, move |accepted| {
            serve(&shared, &watch, accepted)
        })?;
        Ok(Self {
            address,
            store,
            acceptor,
        })
    }

    /// Where the store listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leaves a value, as a client would.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.put(key, value)
    }

    /// The value under a name, if there is one already.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.store.look(key)
    }

    /// Fails every exchange that waits for `rank`, because its process has ended. `how` says where
    /// it ran and how it ended, as the rest of a sentence.
    pub fn end_rank(&self, rank: Rank, how: &str) {
        self.store.end_rank(rank, how);
    }

    /// The same store for users in this process.
    pub fn store(&self) -> MemoryStore {
        MemoryStore(Arc::clone(&self.store))
    }

    /// Ends all waits, connections and threads; also done on drop.
    pub fn stop(&mut self) {
        self.store.close();
        self.acceptor.stop();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Answers one client until it leaves.
fn serve(
    store: &SharedStore,
    watch: &HangUpWatch,
    mut accepted: AcceptedConnection<TcpStream>,
) -> Result<()> {
    if accepted.purpose() != Purpose::Store {
        return Err(Error::Malformed(
            "the connection is not meant for the key-value store",
        ));
    }
    let (socket, session) = accepted.parts();
    socket
        .set_nodelay(true)
        .map_err(Error::io("preparing a connection"))?;
    let mut stream = session.over(socket);
    while let Some(message) = frame::read(&mut stream, frame::LIMIT, frame::RECEIVING)? {
        let request = StoreRequest::decode(&message)?;
        let hung_up = request
            .may_wait()
            .then(|| watch.watch(socket))
            .transpose()?;
        let flag = hung_up.as_ref().map(|it| Arc::clone(it.flag()));
        match answer(store, &request, flag.unwrap_or_default()) {
            Some(answer) => send(&mut stream, &answer)?,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// The answer to a request; none if the client has hung up.
fn answer(
    store: &SharedStore,
    request: &StoreRequest<'_>,
    hung_up: Arc<AtomicBool>,
) -> Option<StoreResponse> {
    let limit = |timeout| WaitLimit::until_hang_up(timeout, hung_up);
    let answer = match *request {
        StoreRequest::Put { key, value } => store.put(key, value).map(|()| StoreResponse::Done),
        StoreRequest::Get { key, timeout } => {
            store.get(key, &limit(timeout)).map(StoreResponse::Value)
        }
        StoreRequest::Number => store.number().map(StoreResponse::Number),
        StoreRequest::Leave {
            scope,
            rank,
            reason,
        } => store
            .leave(scope, rank, reason)
            .map(|()| StoreResponse::Done),
        StoreRequest::Exchange {
            scope,
            rank,
            size,
            value,
            timeout,
        } => store
            .exchange(scope, rank, size as usize, value, &limit(timeout))
            .map(StoreResponse::Values),
    };
    Some(match answer {
        Ok(answer) => answer,
        Err(Error::HungUp) => return None,
        Err(Error::TimedOut { .. }) => StoreResponse::TimedOut,
        Err(Error::MissingRanks { missing, .. }) => StoreResponse::Missing(missing),
        Err(Error::Stopped) => StoreResponse::Stopped,
        Err(Error::GaveUp { rank, reason }) => StoreResponse::GaveUp(rank, reason),
        Err(Error::Ended { rank, reason }) => StoreResponse::Ended(rank, reason),
        Err(Error::Refused(text)) => StoreResponse::Refused(text),
        Err(other) => StoreResponse::Refused(other.to_string()),
    })
}

/// Sends an answer; one that is too long becomes an error for the client instead of a closed
/// connection.
fn send(stream: &mut impl Write, answer: &StoreResponse) -> Result<()> {
    match frame::write(stream, &answer.encode(), frame::SENDING) {
        Err(error @ Error::TooLong { .. }) => {
            let refused = StoreResponse::Refused(error.to_string());
            frame::write(stream, &refused.encode(), frame::SENDING)
        }
        outcome => outcome,
    }
}
