//! One connection of the star; reads and writes without blocking.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use hvd_rendezvous::SecureSession;
use hvd_rendezvous::session::TAMPERED;
use hvd_types::Rank;
use rustix::event::{PollFd, PollFlags};

use super::message::{LifelineMessage, Malformed};
use crate::Failure;
use crate::os::event::poll;
use crate::os::socket::watch_for_silence;
use crate::secure_connection::SecureConnection;

/// One authenticated connection of the star.
#[derive(Debug)]
pub(crate) struct LifelineConnection {
    pub(super) peer: Rank,
    host: String,
    stream: TcpStream,
    session: SecureSession,
    /// Whether bytes arrived that the peer did not send.
    is_tampered: bool,
    /// What has arrived of the next message.
    input: Vec<u8>,
    /// What the connection could not take yet.
    output: Vec<u8>,
    /// When the peer last sent anything.
    last_message: Instant,
}

impl LifelineConnection {
    pub(crate) fn new(peer: Rank, host: String, secure: SecureConnection) -> io::Result<Self> {
        let SecureConnection { stream, session } = secure;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        watch_for_silence(&stream)?;
        Ok(Self {
            peer,
            host,
            stream,
            session,
            is_tampered: false,
            input: Vec::new(),
            output: Vec::new(),
            last_message: Instant::now(),
        })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.output.is_empty() {
            PollFlags::IN
        } else {
            PollFlags::IN | PollFlags::OUT
        }
    }

    /// Reads what has arrived; false if the connection has ended.
    pub(super) fn read(&mut self) -> bool {
        loop {
            match self.stream.read(self.session.opener.room(4096)) {
                Ok(0) => return false,
                Ok(count) => {
                    self.session.opener.filled(count);
                    if self.open().is_err() {
                        self.is_tampered = true;
                        return false;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Opens the records that are complete. Only what the peer has sealed shows that it is alive.
    fn open(&mut self) -> hvd_rendezvous::Result<()> {
        let mut text = [0; 4096];
        loop {
            match self.session.opener.take(&mut text)? {
                0 => return Ok(()),
                count => {
                    self.last_message = Instant::now();
                    self.input.extend(&text[..count]);
                }
            }
        }
    }

    /// The next whole message; malformed bytes are dropped.
    pub(super) fn next_message(&mut self) -> Option<LifelineMessage> {
        LifelineMessage::take(&mut self.input).unwrap_or_else(|Malformed| {
            tracing::warn!(rank = %self.peer, "a lifeline carries nonsense");
            self.input.clear();
            None
        })
    }

    /// Sends a message, or buffers what the socket does not take now.
    pub(super) fn send(&mut self, message: &LifelineMessage) {
        let sealed = self
            .session
            .sealer
            .seal_all(&message.encode(), &mut self.output);
        if let Err(error) = sealed {
            tracing::warn!(rank = %self.peer, %error, "a message was not sent on a lifeline");
        }
        self.flush();
    }

    /// Sends a failure, for as long as `end` allows. Nothing should be sent afterwards.
    pub(crate) fn send_final(&mut self, failure: &Failure, end: Instant) {
        self.send(&LifelineMessage::Failure(failure.clone()));
        self.flush_until(end);
    }

    /// Sends as much of the buffer as the socket takes now.
    pub(super) fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer is gone; reading notices it.
                Err(_) => self.output.clear(),
            }
        }
    }

    /// Sends the whole buffer, for as long as `end` allows.
    pub(super) fn flush_until(&mut self, end: Instant) {
        self.flush();
        while !self.output.is_empty() {
            let writable = poll(&mut [PollFd::new(&self.stream, PollFlags::OUT)], Some(end));
            if !writable.unwrap_or(false) {
                return;
            }
            self.flush();
        }
    }

    /// For how long the peer has sent nothing.
    pub(super) fn since_last_message(&self) -> Duration {
        self.last_message.elapsed()
    }

    pub(super) fn lost(&self) -> Failure {
        self.failed(if self.is_tampered {
            format!("has a lifeline on which {TAMPERED}")
        } else {
            "closed its connection without a goodbye".to_owned()
        })
    }

    pub(super) fn timed_out(&self, limit: Duration) -> Failure {
        let seconds = limit.as_secs_f64();
        self.failed(format!(
            "has given no sign of life for {seconds} s (HOROVOD_GLOO_TIMEOUT_SECONDS); is it \
             suspended, or its host cut off?"
        ))
    }

    fn failed(&self, reason: String) -> Failure {
        Failure {
            rank: self.peer,
            host: self.host.clone(),
            reason,
        }
    }
}

impl AsFd for LifelineConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
