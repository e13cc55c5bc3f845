//! The listening end of a probe: one port for both families of addresses, behind the acceptor of
//! `hvd-rendezvous`, so that strangers learn nothing.
//!
//! - `PORT-1` a caller that says nothing for a few seconds is hung up on: the thread that serves it
//!   is needed for no longer.
//! - `PORT-2` nothing is allocated by what a caller claims, and no request asks for more than the
//!   limit.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use hvd_rendezvous::{
    Error as RendezvousError, JobKey, Purpose,
    accept::{AcceptedConnection, Acceptor},
};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, ipproto::TCP, listen, socket_with, sockopt,
};

use super::{ECHO, LARGEST, PING, SWALLOW};
use crate::error::{Error, Result};

/// How long a caller may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// Connections the kernel keeps for us; a thousand hosts may call in the same millisecond.
const BACKLOG: i32 = 4096;

/// What a port is called in errors.
const OPENING: &str = "open a port at which other hosts can try to reach this one";

/// A port that answers probes until it is dropped.
#[derive(Debug)]
pub(crate) struct ProbePort {
    port: u16,
    _acceptor: Acceptor<TcpListener>,
}

impl ProbePort {
    /// Listens at all addresses, on a free port, of `range` if there is one (both ends belong to
    /// it), and sends callers that know `key` this host's `identity`.
    pub(crate) fn open(range: Option<(u16, u16)>, key: &JobKey, identity: u32) -> Result<Self> {
        let listener = listener(range).map_err(Error::system(OPENING))?;
        let address = listener.local_addr().map_err(Error::system(OPENING))?;
        let acceptor = Acceptor::start(listener, "hvd-probe", key, move |accepted| {
            serve(accepted, identity)
        })?;
        Ok(Self {
            port: address.port(),
            _acceptor: acceptor,
        })
    }

    /// The port's number.
    pub(crate) fn number(&self) -> u16 {
        self.port
    }
}

fn listener(range: Option<(u16, u16)>) -> io::Result<TcpListener> {
    let Some((first, last)) = range else {
        return listen_at(0);
    };
    for port in first..=last {
        match listen_at(port) {
            Err(error) if is_skipped(&error) => {}
            outcome => return outcome,
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("none of the ports {first}-{last} is free; give a wider --port-range"),
    ))
}

/// Taken by others, or reserved for the superuser.
fn is_skipped(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied
    )
}

/// Listens for IPv6 and IPv4, or for IPv4 alone where the kernel has nothing else.
fn listen_at(port: u16) -> io::Result<TcpListener> {
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match listen_on(v6) {
        Err(error) if lacks_v6(&error) => {
            listen_on(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        }
        outcome => outcome,
    }
}

fn lacks_v6(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAFNOSUPPORT)
        || error.kind() == io::ErrorKind::AddrNotAvailable
}

/// As the standard library does it, but for one socket that serves both families whatever the
/// system's default is.
fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(TCP))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    // Connections of an earlier job that linger on the port do not take it.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Answers one caller until it leaves or says nothing more.
fn serve(mut accepted: AcceptedConnection<TcpStream>, identity: u32) -> hvd_rendezvous::Result<()> {
    let doing = "answering a probe";
    if accepted.purpose() != Purpose::Probe {
        return Err(RendezvousError::Malformed(
            "the connection is not meant as a probe",
        ));
    }
    let (socket, session) = accepted.parts();
    prepare(socket, SILENCE).map_err(RendezvousError::io(doing))?;
    converse(&mut session.over(socket), identity).map_err(RendezvousError::io(doing))
}

fn prepare(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(silence))?;
    stream.set_write_timeout(Some(silence))
}

fn converse(stream: &mut (impl Read + Write), identity: u32) -> io::Result<()> {
    stream.write_all(&identity.to_le_bytes())?;
    loop {
        let mut request = [0];
        match stream.read_exact(&mut request) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        }
        match request {
            [PING] => {
                let mut echo = [0; ECHO];
                stream.read_exact(&mut echo)?;
                stream.write_all(&echo)?;
            }
            [SWALLOW] => swallow(stream)?,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn swallow(stream: &mut (impl Read + Write)) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let wanted = u32::from_le_bytes(length);
    if wanted > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut left = wanted as usize;
    let mut piece = vec![0; super::PIECE];
    while left > 0 {
        let room = left.min(piece.len());
        match stream.read(&mut piece[..room]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => left -= count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.write_all(&length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_1_a_silent_caller_is_hung_up_on() {
        let listener = listener(None).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut caller = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (served, _) = listener.accept().unwrap();

        prepare(&served, Duration::from_millis(50)).unwrap();
        let error = converse(&mut &served, 7).unwrap_err();
        drop(served);

        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let mut all = Vec::new();
        caller.read_to_end(&mut all).unwrap();
        assert_eq!(all, 7_u32.to_le_bytes());
    }

    #[test]
    fn port_2_nonsense_ends_the_conversation() {
        let too_much = (LARGEST + 1).to_le_bytes();
        for request in [&[9][..], &[&[SWALLOW], &too_much[..]].concat()] {
            let listener = listener(None).unwrap();
            let port = listener.local_addr().unwrap().port();
            let mut caller = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let (served, _) = listener.accept().unwrap();
            caller.write_all(request).unwrap();
            let error = converse(&mut &served, 7).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
