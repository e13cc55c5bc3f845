//! What the standard library does not query about, or set on, a TCP socket.

#![expect(
    unsafe_code,
    reason = "the question is asked through an untyped system call"
)]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{
    AddressFamily, SocketAddrV6, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};

/// `SIOCOUTQNSD` of linux/sockios.h.
const UNSENT: Opcode = 0x894B;

/// Bytes that were written to a socket and have not left this host yet.
pub(crate) fn unsent(stream: &TcpStream) -> io::Result<usize> {
    // SAFETY: this operation code answers with one C int and has no other effect.
    let question = unsafe { Getter::<UNSENT, i32>::new() };
    // SAFETY: the socket is open, and the getter provides the memory that is written.
    let answer = unsafe { ioctl(stream, question) }?;
    usize::try_from(answer).map_err(io::Error::other)
}

/// Listens at `port` of every address of this host, IPv6 and IPv4; port 0 takes a free one.
pub(crate) fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    match listen_on_both(port) {
        // The kernel has no IPv6, or has it turned off.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::Unsupported | io::ErrorKind::AddrNotAvailable
            ) || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        }
        outcome => outcome,
    }
}

/// The standard library's `bind` leaves it to a setting of the system whether IPv4 is included.
fn listen_on_both(port: u16) -> io::Result<TcpListener> {
    /// All ranks of a large job may come at once; the system lowers it to its own limit.
    const WAITING: i32 = 4096;
    let (family, flags) = (AddressFamily::INET6, SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    // A port of a job that has just ended is free for the next.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(
        &socket,
        &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0),
    )?;
    listen(&socket, WAITING)?;
    Ok(TcpListener::from(socket))
}

/// Has `algorithm` decide how fast the connection sends. Without one, a connection that would be
/// paced by an estimate of the path is switched to `cubic` if that is allowed: on networks without
/// loss, which is what jobs run on, pacing in both directions at once costs a third and more.
pub(crate) fn control_congestion(stream: &TcpStream, algorithm: Option<&str>) -> io::Result<()> {
    if let Some(algorithm) = algorithm {
        return Ok(sockopt::set_tcp_congestion(stream, algorithm)?);
    }
    if sockopt::tcp_congestion(stream).is_ok_and(|current| current.starts_with("bbr")) {
        // Not allowed is no trouble: the connection works all the same.
        let _ = sockopt::set_tcp_congestion(stream, "cubic");
    }
    Ok(())
}

/// Has the kernel notice, within half a minute, that the other host is gone without a word.
pub(crate) fn watch_for_silence(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}
