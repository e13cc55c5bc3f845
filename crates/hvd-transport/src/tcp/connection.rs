//! One connection: what moves on it, and whether its other end is closed (`TCP-1`).
//!
//! Bytes travel as they are, or sealed by the connection's session. Sealed, a byte counts as sent
//! when its whole record has gone to the kernel: a caller that was returned fewer bytes than it
//! gave comes again with the rest, as for any connection that is full, and nothing waits in this
//! process for a later call to send it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use hvd_rendezvous::SecureSession;
use hvd_rendezvous::session::LONGEST;

use crate::secure_connection::SecureConnection;

/// A lane to a peer, or a strand of one.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) stream: TcpStream,
    /// When the other end was seen to be closed.
    pub(super) ended: Option<Instant>,
    /// Whether it ended with bytes that the other end did not send.
    pub(super) is_tampered: bool,
    seal: Option<Box<Seal>>,
}

/// What protects a connection.
#[derive(Debug)]
struct Seal {
    session: SecureSession,
    /// The record that is being sent, and how much of it has gone.
    record: Vec<u8>,
    gone: usize,
    /// Bytes of text in the record that were not yet counted as sent.
    uncounted: usize,
    /// How much is read at once.
    read_size: usize,
}

impl Connection {
    /// Prepares an authenticated stream for moving bytes as they are.
    pub(crate) fn plain(stream: TcpStream) -> io::Result<Self> {
        // Buffer sizes are left to the kernel, which adapts them to the path; setting them would
        // turn that off.
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            ended: None,
            is_tampered: false,
            seal: None,
        })
    }

    /// The same, for bytes that only the other end can read and change: few at a time, for control
    /// messages, or many.
    pub(crate) fn sealed(stream: SecureConnection, is_bulk: bool) -> io::Result<Self> {
        let seal = Seal {
            session: stream.session,
            record: Vec::new(),
            gone: 0,
            uncounted: 0,
            read_size: if is_bulk { 2 * LONGEST } else { 4096 },
        };
        Ok(Self {
            seal: Some(Box::new(seal)),
            ..Self::plain(stream.stream)?
        })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> usize {
        if self.ended.is_some() || bytes.is_empty() {
            return 0;
        }
        let Some(mut seal) = self.seal.take() else {
            let outcome = (&self.stream).write(bytes);
            return self.count(outcome);
        };
        let sent = self.send_sealed(&mut seal, bytes);
        self.seal = Some(seal);
        sent
    }

    fn send_sealed(&mut self, seal: &mut Seal, bytes: &[u8]) -> usize {
        let mut sent = 0;
        loop {
            while seal.gone < seal.record.len() {
                let outcome = (&self.stream).write(&seal.record[seal.gone..]);
                match self.count(outcome) {
                    0 => return sent,
                    count => seal.gone += count,
                }
            }
            let counted = seal.uncounted.min(bytes.len() - sent);
            seal.uncounted -= counted;
            sent += counted;
            if sent == bytes.len() {
                return sent;
            }
            seal.record.clear();
            seal.gone = 0;
            let sealed = seal.session.sealer.seal(&bytes[sent..], &mut seal.record);
            let Ok(count) = sealed else {
                self.end();
                return sent;
            };
            seal.uncounted = count;
        }
    }

    pub(super) fn recv(&mut self, buffer: &mut [u8]) -> usize {
        if buffer.is_empty() {
            return 0;
        }
        if let Some(mut seal) = self.seal.take() {
            let received = self.recv_sealed(&mut seal, buffer);
            self.seal = Some(seal);
            return received;
        }
        self.read(buffer)
    }

    /// Reads bytes as they arrive.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        if self.ended.is_some() {
            return 0;
        }
        match (&self.stream).read(buffer) {
            Ok(0) => self.end(),
            outcome => self.count(outcome),
        }
    }

    fn recv_sealed(&mut self, seal: &mut Seal, buffer: &mut [u8]) -> usize {
        let (opener, mut received) = (&mut seal.session.opener, 0);
        // What arrived before the other end closed is still good.
        while !self.is_tampered {
            let Ok(count) = opener.take(&mut buffer[received..]) else {
                self.is_tampered = true;
                self.end();
                break;
            };
            received += count;
            if received == buffer.len() {
                break;
            }
            let count = self.read(opener.room(seal.read_size));
            opener.filled(count);
            if count == 0 {
                break;
            }
        }
        received
    }

    /// Whether bytes have arrived that the kernel does not know of any more.
    pub(super) fn has_input(&self) -> bool {
        let seal = self.seal.as_ref();
        !self.is_tampered && seal.is_some_and(|seal| seal.session.opener.is_ready())
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
