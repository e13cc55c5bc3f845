//! Closing connections without destroying what was sent on them.
//!
//! The kernel answers a close with unread bytes, and bytes that arrive after a close, with a
//! reset, and a reset drops what this end has not sent yet. So this end first says that it sends
//! no more, and if something has yet to leave the host it reads and drops what comes until the
//! peer closes too, for at most [`TIMEOUT`].

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::os::event::poll;
use crate::os::socket::unsent;

/// How long peers may take to close their ends.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Prepares nonblocking `streams` for being dropped.
pub(super) fn in_peace<'a>(streams: impl Iterator<Item = &'a TcpStream>) {
    let mut open: Vec<&TcpStream> = streams
        .filter(|stream| stream.shutdown(Shutdown::Write).is_ok())
        .filter(|stream| is_needed(stream))
        .collect();
    let end = Instant::now() + TIMEOUT;
    while !open.is_empty() {
        let mut polled: Vec<PollFd<'_>> = open
            .iter()
            .map(|stream| PollFd::new(*stream, PollFlags::IN))
            .collect();
        if !poll(&mut polled, Some(end)).unwrap_or(false) || Instant::now() >= end {
            return;
        }
        open.retain(|stream| is_needed(stream));
    }
}

/// Empties what has arrived; true if the connection has to stay open for what was sent.
fn is_needed(mut stream: &TcpStream) -> bool {
    let mut dropped = [0; 16 * 1024];
    loop {
        match stream.read(&mut dropped) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return unsent(stream).is_ok_and(|bytes| bytes > 0);
            }
            Err(_) => return false,
        }
    }
}
