//! One connection: what moves on it, and whether its other end is closed (`TCP-1`).

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// A lane to a peer, or a strand of one.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) stream: TcpStream,
    /// When the other end was seen to be closed.
    pub(super) ended: Option<Instant>,
}

impl Connection {
    /// Prepares an authenticated stream for moving bytes.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        // Buffer sizes are left to the kernel, which adapts them to the path; setting them would
        // turn that off.
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            ended: None,
        })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> usize {
        if self.ended.is_some() || bytes.is_empty() {
            return 0;
        }
        let outcome = (&self.stream).write(bytes);
        self.count(outcome)
    }

    pub(super) fn recv(&mut self, buffer: &mut [u8]) -> usize {
        if self.ended.is_some() || buffer.is_empty() {
            return 0;
        }
        match (&self.stream).read(buffer) {
            Ok(0) => self.end(),
            outcome => self.count(outcome),
        }
    }

    /// How many bytes moved; whatever is not a matter of waiting ends the connection (`TCP-1`).
    fn count(&mut self, outcome: io::Result<usize>) -> usize {
        match outcome {
            Ok(count) => count,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                0
            }
            Err(_) => self.end(),
        }
    }

    fn end(&mut self) -> usize {
        self.ended.get_or_insert_with(Instant::now);
        0
    }

    /// Notes the end of a connection of which `poll` said that the other end closed it, unless
    /// there are bytes left to read.
    pub(super) fn look_for_end(&mut self) {
        match self.stream.peek(&mut [0]) {
            Ok(0) => drop(self.end()),
            outcome => drop(self.count(outcome)),
        }
    }
}
