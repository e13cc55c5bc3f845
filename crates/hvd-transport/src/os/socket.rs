//! What the standard library does not tell about, or set on, a TCP socket.

#![expect(
    unsafe_code,
    reason = "the question is asked through an untyped system call"
)]

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::sockopt;

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

/// Has the kernel notice, within half a minute, that the other host is gone without a word.
pub(crate) fn watch_for_silence(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}
