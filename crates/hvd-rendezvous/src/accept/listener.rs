//! Listening sockets of any family, and which of their errors pass.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::io::Errno;

use crate::deadline::Socket;

/// A listening socket of any family.
pub trait Listener: AsFd + Send + Sync + 'static {
    /// Its connections.
    type Stream: Socket + Send + Sync + 'static;
    /// Waits for the next connection; also returns its peer.
    fn next(&self) -> io::Result<(Self::Stream, String)>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    fn next(&self) -> io::Result<(TcpStream, String)> {
        let (stream, peer) = self.accept()?;
        Ok((stream, peer.ip().to_canonical().to_string()))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    fn next(&self) -> io::Result<(UnixStream, String)> {
        let (stream, _) = self.accept()?;
        Ok((stream, "a process of this host".to_owned()))
    }
}

/// Errors of one connection attempt, after which the next may well succeed. Linux reports errors
/// that are already pending on a new connection, those of its network, as errors of `accept`.
pub(super) fn is_passing(error: &io::Error) -> bool {
    const PASSING: [Errno; 12] = [
        Errno::CONNABORTED,
        Errno::CONNRESET,
        Errno::INTR,
        Errno::AGAIN,
        Errno::PERM,
        Errno::PROTO,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NONET,
        Errno::TIMEDOUT,
    ];
    is_one_of(error, &PASSING)
}

/// This process, or its host, has no more files or memory for a connection.
pub fn is_shortage(error: &io::Error) -> bool {
    const SHORTAGE: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    is_one_of(error, &SHORTAGE)
}

fn is_one_of(error: &io::Error, codes: &[Errno]) -> bool {
    let code = error.raw_os_error();
    codes.iter().any(|it| code == Some(it.raw_os_error()))
}
