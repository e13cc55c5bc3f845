//! A worker's connection to the launcher's store. One request at a time; the answer may take as
//! long as the request allows, and a little more for the way.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use hvd_types::Rank;

use crate::deadline::{self, Socket, Timed};
use crate::protocol::{StoreRequest, StoreResponse};
use crate::{Error, JobKey, Purpose, Result, SecureSession, Store, frame, handshake};

/// How much later than asked an answer may arrive before the store counts as lost.
const GRACE: Duration = Duration::from_secs(10);

/// An authenticated connection to a [`crate::Server`].
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    session: SecureSession,
    local_ip: IpAddr,
}

/// Ends a client's connection from another thread.
#[derive(Debug)]
pub struct HangUp(TcpStream);

impl HangUp {
    /// Ends the connection; a request that is under way fails.
    pub fn now(self) {
        self.0.hang_up();
    }
}

impl Client {
    /// Connects to the store at a host name or address and proves knowledge of the job key, all
    /// within `timeout`.
    pub fn connect(addr: &str, port: u16, key: &JobKey, timeout: Duration) -> Result<Self> {
        let end = deadline::after(timeout);
        let stream = open(addr, port, end)?;
        stream
            .set_nodelay(true)
            .map_err(Error::io("connecting to the key-value store"))?;
        let session = handshake::connect(&mut Timed::new(&stream, end), key, Purpose::Store)?;
        let local = stream
            .local_addr()
            .map_err(Error::io("reading a socket's own address"))?;
        Ok(Self {
            stream,
            session,
            local_ip: local.ip(),
        })
    }

    /// This host's address as seen on the way to the store; other hosts of the job can usually
    /// reach it too.
    pub fn local_ip(&self) -> IpAddr {
        self.local_ip
    }

    /// What ends this connection from another thread.
    pub fn hang_up_handle(&self) -> Result<HangUp> {
        let stream = self.stream.try_clone();
        stream
            .map(HangUp)
            .map_err(Error::io("duplicating a socket"))
    }

    fn ask(&mut self, request: &StoreRequest<'_>, timeout: Duration) -> Result<StoreResponse> {
        let end = deadline::after(timeout.saturating_add(GRACE));
        let mut stream = self.session.over(Timed::new(&self.stream, end));
        frame::write(&mut stream, &request.encode(), frame::SENDING)?;
        match frame::read(&mut stream, frame::LIMIT, frame::RECEIVING)? {
            Some(message) => StoreResponse::decode(&message),
            None => Err(Error::Stopped),
        }
    }
}

/// Tries the addresses of a host in turn.
fn open(addr: &str, port: u16, end: Instant) -> Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (addr, port)
        .to_socket_addrs()
        .map_err(Error::io("looking up the host of the key-value store"))?
        .collect();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            failure = io::ErrorKind::TimedOut.into();
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(Error::io("connecting to the key-value store")(failure))
}

/// Errors that any request may end with.
fn refuse(answer: StoreResponse) -> Error {
    match answer {
        StoreResponse::Refused(text) => Error::Refused(text),
        StoreResponse::Stopped => Error::Stopped,
        StoreResponse::GaveUp(rank, reason) => Error::GaveUp { rank, reason },
        StoreResponse::Ended(rank, reason) => Error::Ended { rank, reason },
        _ => Error::Malformed("the answer does not fit the request"),
    }
}

impl Store for Client {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        match self.ask(&StoreRequest::Put { key, value }, GRACE)? {
            StoreResponse::Done => Ok(()),
            other => Err(refuse(other)),
        }
    }

    fn get(&mut self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        match self.ask(&StoreRequest::Get { key, timeout }, timeout)? {
            StoreResponse::Value(value) => Ok(value),
            StoreResponse::TimedOut => Err(Error::TimedOut {
                key: key.to_owned(),
                seconds: timeout.as_secs(),
            }),
            other => Err(refuse(other)),
        }
    }

    fn exchange(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>> {
        let count = u32::try_from(size)
            .map_err(|_| Error::Refused(format!("{size} ranks are more than a job can have")))?;
        let request = StoreRequest::Exchange {
            scope,
            rank,
            size: count,
            value,
            timeout,
        };
        match self.ask(&request, timeout)? {
            StoreResponse::Values(values) if values.len() == size => {
                Ok(std::sync::Arc::unwrap_or_clone(values))
            }
            StoreResponse::Missing(missing) => Err(Error::MissingRanks {
                scope: scope.to_owned(),
                missing,
                size,
                seconds: timeout.as_secs(),
            }),
            other => Err(refuse(other)),
        }
    }

    fn leave(&mut self, scope: &str, rank: Rank, reason: &str) -> Result<()> {
        let request = StoreRequest::Leave {
            scope,
            rank,
            reason,
        };
        match self.ask(&request, GRACE)? {
            StoreResponse::Done => Ok(()),
            other => Err(refuse(other)),
        }
    }

    fn number(&mut self) -> Result<u64> {
        match self.ask(&StoreRequest::Number, GRACE)? {
            StoreResponse::Number(number) => Ok(number),
            other => Err(refuse(other)),
        }
    }
}
