//! A stream whose every read and write ends by one fixed moment.
//!
//! Socket timeouts alone bound each read; a peer that sends one byte before every timeout would
//! still hold a thread for minutes. [`Timed`] bounds the whole conversation.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longer than any job; stands for "no limit" where a moment is needed.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The moment `timeout` from now; a far one if the sum does not exist.
pub fn after(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(FOREVER)
}

/// A socket that takes a timeout for one read or write.
pub trait Socket {
    /// Bounds each later read.
    fn limit_read(&self, timeout: Option<Duration>) -> io::Result<()>;
    /// Bounds each later write.
    fn limit_write(&self, timeout: Option<Duration>) -> io::Result<()>;
    /// Ends the connection in both directions, waking a thread that reads from it.
    fn hang_up(&self);
}

impl Socket for TcpStream {
    fn hang_up(&self) {
        // It may be closed already, by its own end or the other.
        let _ = self.shutdown(Shutdown::Both);
    }

    fn limit_read(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)
    }
    fn limit_write(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_write_timeout(timeout)
    }
}

impl Socket for UnixStream {
    fn hang_up(&self) {
        // It may be closed already, by its own end or the other.
        let _ = self.shutdown(Shutdown::Both);
    }

    fn limit_read(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)
    }
    fn limit_write(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_write_timeout(timeout)
    }
}

/// A borrowed socket with a moment after which nothing is read or written any more.
#[derive(Debug)]
pub struct Timed<'a, S> {
    socket: &'a S,
    end: Instant,
}

impl<'a, S: Socket> Timed<'a, S> {
    /// Bounds everything done through the result by `end`.
    pub fn new(socket: &'a S, end: Instant) -> Self {
        Self { socket, end }
    }

    fn left(&self) -> io::Result<Duration> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

impl<S: Socket> Read for Timed<'_, S>
where
    for<'s> &'s S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.limit_read(Some(self.left()?))?;
        let mut socket = self.socket;
        socket.read(buffer).map_err(name_timeout)
    }
}

impl<S: Socket> Write for Timed<'_, S>
where
    for<'s> &'s S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.limit_write(Some(self.left()?))?;
        let mut socket = self.socket;
        socket.write(bytes).map_err(name_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut socket = self.socket;
        socket.flush()
    }
}

/// The system reports an expired socket timeout as "would block", which explains nothing.
fn name_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "timed out"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dripping_peer_cannot_outlast_the_deadline() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let dripping = std::thread::Builder::new()
            .name("hvd-test-drip".into())
            .spawn(move || while (&theirs).write_all(&[0]).is_ok() {})
            .unwrap();
        let end = after(Duration::from_millis(50));
        let mut stream = Timed::new(&ours, end);

        let error = loop {
            if let Err(error) = stream.read(&mut [0]) {
                break error;
            }
        };

        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(ours);
        dripping.join().unwrap();
    }

    #[test]
    fn endless_timeouts_do_not_overflow() {
        assert!(after(Duration::MAX) > Instant::now());
    }
}
