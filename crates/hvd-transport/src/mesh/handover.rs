//! How the shared memory of a host gets from rank 0 to the others: as an open file, through a
//! unix socket without a place in the file system, to whoever proves the job key.

use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Instant;

use hvd_rendezvous::accept::{Acceptor, Guest};
use hvd_rendezvous::deadline::Timed;
use hvd_rendezvous::{Error as StoreError, JobKey, Purpose, handshake};

use crate::os::pass;
use crate::shm::{Capacities, Segment};
use crate::{Error, Result};

/// Rank 0's side; serves until it is dropped.
pub(super) struct Offer {
    name: String,
    file: Arc<OwnedFd>,
    _acceptor: Acceptor<UnixListener>,
}

impl Offer {
    /// Creates memory for `ranks` ranks and opens a socket where they can get it.
    pub(super) fn prepare(ranks: usize, capacities: Capacities, key: &JobKey) -> Result<Self> {
        let doing = "opening a unix socket";
        let file = Arc::new(Segment::create(ranks, capacities)?);
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| Error::Bootstrap(error.to_string()))?;
        let name = format!("hvd-{:016x}", u64::from_ne_bytes(random));
        let address = SocketAddr::from_abstract_name(&name).map_err(Error::io(doing))?;
        let listener = UnixListener::bind_addr(&address).map_err(Error::io(doing))?;
        let shared = Arc::clone(&file);
        let serve = move |guest: &Guest<UnixStream>| give(guest, &shared);
        let acceptor = Acceptor::start(listener, "hvd-memory", key, serve)?;
        Ok(Self {
            name,
            file,
            _acceptor: acceptor,
        })
    }

    /// The name of the socket.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Rank 0's own way to the memory.
    pub(super) fn attach(&self, ranks: usize) -> Result<Segment> {
        Segment::attach(self.file.as_fd(), ranks)
    }
}

fn give(guest: &Guest<UnixStream>, file: &OwnedFd) -> hvd_rendezvous::Result<()> {
    if guest.purpose() != Purpose::Segment {
        return Err(StoreError::Malformed(
            "the connection is not meant for shared memory",
        ));
    }
    pass::send(guest.stream(), file.as_fd()).map_err(StoreError::io("handing over shared memory"))
}

/// The other ranks' side: gets the memory from the socket that rank 0 named.
pub(super) fn fetch(name: &str, ranks: usize, key: &JobKey, end: Instant) -> Result<Segment> {
    if name.is_empty() {
        return Err(Error::Bootstrap("rank 0 offers none".to_owned()));
    }
    let doing = "getting shared memory from rank 0";
    let address = SocketAddr::from_abstract_name(name).map_err(Error::io(doing))?;
    let stream = UnixStream::connect_addr(&address).map_err(Error::io(doing))?;
    handshake::connect(&mut Timed::new(&stream, end), key, Purpose::Segment)?;
    let left = end.saturating_duration_since(Instant::now());
    stream
        .set_read_timeout(Some(left.max(std::time::Duration::from_millis(1))))
        .map_err(Error::io(doing))?;
    let file = pass::receive(&stream).map_err(Error::io(doing))?;
    Segment::attach(file.as_fd(), ranks)
}
