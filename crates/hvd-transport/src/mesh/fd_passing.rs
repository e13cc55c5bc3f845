//! Passing the shared memory of a host from its first rank to the others: as file descriptors,
//! through a unix socket in the abstract namespace, to ranks that prove the job key.
//!
//! The files are the segment and, where ranks sleep on flags, the flag of each rank.

use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_rendezvous::accept::{AcceptedConnection, Acceptor};
use hvd_rendezvous::deadline::Timed;
use hvd_rendezvous::{Error as StoreError, JobKey, Purpose, handshake};
use hvd_types::Rank;

use crate::mixed::HostMemory;
use crate::os::event::Flag;
use crate::os::send_fd;
use crate::shm::{Capacities, Segment};
use crate::{Error, Result};

/// The ranks of a host, and what they sleep on.
#[derive(Debug)]
pub(super) struct HostGroup {
    /// Ascending.
    pub(super) ranks: Vec<Rank>,
    /// Whether there are other hosts, so that a wait is for connections too.
    pub(super) has_flags: bool,
}

/// A socket where a rank could hand out memory. Every rank opens one before it knows whether it is
/// the first of its host; those who connect wait until it serves or is dropped.
pub(super) struct MemoryOffer {
    name: String,
    listener: UnixListener,
}

impl MemoryOffer {
    pub(super) fn open() -> Result<Self> {
        let doing = "opening a unix socket";
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| Error::Bootstrap(error.to_string()))?;
        let name = format!("hvd-{:016x}", u64::from_ne_bytes(random));
        let address = SocketAddr::from_abstract_name(&name).map_err(Error::io(doing))?;
        let listener = UnixListener::bind_addr(&address).map_err(Error::io(doing))?;
        Ok(Self { name, listener })
    }

    /// The name of the socket.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Creates memory for a host and hands it to each rank that connects.
    pub(super) fn serve(
        self,
        host_group: &HostGroup,
        capacities: Capacities,
        key: &JobKey,
    ) -> Result<MemoryServer> {
        let ranks = host_group.ranks.len();
        let mut files = vec![Segment::create(ranks, capacities)?];
        if host_group.has_flags {
            for _ in 0..ranks {
                let flag = Flag::new().map_err(Error::io("creating an event"))?;
                files.push(flag.into());
            }
        }
        let files = Arc::new(files);
        let shared = Arc::clone(&files);
        let serve = move |accepted: AcceptedConnection<UnixStream>| give(&accepted, &shared);
        let acceptor = Acceptor::start(self.listener, "hvd-memory", key, serve)?;
        Ok(MemoryServer {
            files,
            _acceptor: acceptor,
        })
    }
}

/// The first rank's side; serves until it is dropped.
pub(super) struct MemoryServer {
    files: Arc<Vec<OwnedFd>>,
    _acceptor: Acceptor<UnixListener>,
}

impl MemoryServer {
    /// The first rank's own way to the memory.
    pub(super) fn attach(&self, host_group: HostGroup) -> Result<HostMemory> {
        let files: std::io::Result<Vec<OwnedFd>> =
            self.files.iter().map(OwnedFd::try_clone).collect();
        attach(
            files.map_err(Error::io("attaching shared memory"))?,
            host_group,
        )
    }
}

fn give(
    accepted: &AcceptedConnection<UnixStream>,
    files: &[OwnedFd],
) -> hvd_rendezvous::Result<()> {
    if accepted.purpose() != Purpose::Segment {
        return Err(StoreError::Malformed(
            "the connection is not meant for shared memory",
        ));
    }
    for file in files {
        send_fd::send(accepted.stream(), file.as_fd())
            .map_err(StoreError::io("handing over shared memory"))?;
    }
    Ok(())
}

/// The other ranks' side: gets the memory from the socket that the first one named.
pub(super) fn fetch(
    name: &str,
    host_group: HostGroup,
    key: &JobKey,
    end: Instant,
) -> Result<HostMemory> {
    if name.is_empty() {
        let first = host_group.ranks.first().copied().unwrap_or_default();
        return Err(Error::Bootstrap(format!("rank {first} offers none")));
    }
    let doing = "getting shared memory from the first rank of this host";
    let address = SocketAddr::from_abstract_name(name).map_err(Error::io(doing))?;
    let stream = UnixStream::connect_addr(&address).map_err(Error::io(doing))?;
    // The files travel beside the session: a socket of this host has no path to attack.
    let _session = handshake::connect(&mut Timed::new(&stream, end), key, Purpose::Segment)?;
    let flags = usize::from(host_group.has_flags) * host_group.ranks.len();
    let mut files = Vec::with_capacity(1 + flags);
    for _ in 0..=flags {
        let left = end.saturating_duration_since(Instant::now());
        stream
            .set_read_timeout(Some(left.max(Duration::from_millis(1))))
            .map_err(Error::io(doing))?;
        files.push(send_fd::receive(&stream).map_err(Error::io(doing))?);
    }
    attach(files, host_group)
}

fn attach(files: Vec<OwnedFd>, host_group: HostGroup) -> Result<HostMemory> {
    let mut files = files.into_iter();
    let file = files
        .next()
        .ok_or_else(|| Error::Bootstrap("no file".to_owned()))?;
    Ok(HostMemory {
        segment: Segment::attach(file.as_fd(), host_group.ranks.len())?,
        ranks: host_group.ranks,
        flags: files.map(|file| Arc::new(Flag::from(file))).collect(),
    })
}

#[cfg(test)]
mod tests;
