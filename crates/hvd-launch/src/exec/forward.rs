//! Forwards one stream of one worker: reads its pipe, prefixes lines, hands them to the console
//! thread, and keeps the last lines. Ends at the end of the stream, or when told that every process
//! of the job is gone and the pipe is empty: a pipe may have been carried off to elsewhere.

use std::{
    io,
    os::fd::OwnedFd,
    time::{SystemTime, UNIX_EPOCH},
};

use hvd_types::Rank;
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, sync::watch};

use super::{
    output::{Prefixer, Stream, stamp},
    sink::Voice,
    tail::Tail,
};
use crate::{Error, Result, Stamp};

/// Read at once; a pipe's usual capacity.
const CHUNK: usize = 1 << 16;

/// One stream of one worker on its way.
pub(super) struct Forwarder {
    rank: Rank,
    stream: Stream,
    pipe: Receiver,
    voice: Voice,
    stamp: Stamp,
    prefixer: Prefixer,
    tail: Tail,
}

impl Forwarder {
    /// Takes over the reading end of a worker's pipe.
    pub(super) fn new(
        rank: Rank,
        stream: Stream,
        pipe: OwnedFd,
        voice: Voice,
        stamp: Stamp,
    ) -> Result<Self> {
        let pipe =
            Receiver::from_owned_fd(pipe).map_err(Error::system("read a worker's output"))?;
        let prefixer = Prefixer::new(rank, stream);
        Ok(Self {
            rank,
            stream,
            pipe,
            voice,
            stamp,
            prefixer,
            tail: Tail::default(),
        })
    }

    /// Forwards until the end and returns the last lines. `all_gone` becomes true when no process
    /// of the job is left.
    pub(super) async fn run(mut self, mut all_gone: watch::Receiver<bool>) -> Vec<String> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = tokio::select! {
                read = self.pipe.read(&mut buffer) => read,
                // Asks the kernel and not the runtime, whose news may be older than the last bytes.
                _ = all_gone.wait_for(|gone| *gone) => {
                    rustix::io::read(&self.pipe, &mut buffer[..]).map_err(Into::into)
                }
            };
            match read {
                Ok(0) => break,
                Ok(length) => self.take(&buffer[..length]).await,
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        tracing::warn!(rank = %self.rank, %error, "output of a rank is lost");
                    }
                    break;
                }
            }
        }
        let mut lines = Vec::new();
        self.prefixer.finish(&self.now(), &mut lines);
        self.send(lines).await;
        self.tail.into_lines()
    }

    async fn take(&mut self, bytes: &[u8]) {
        if self.stream == Stream::Stderr {
            self.tail.push(bytes);
        }
        let mut lines = Vec::with_capacity(bytes.len() + bytes.len() / 4);
        self.prefixer.push(bytes, &self.now(), &mut lines);
        self.send(lines).await;
    }

    async fn send(&self, lines: Vec<u8>) {
        if !lines.is_empty() {
            self.voice.output(self.rank, self.stream, lines).await;
        }
    }

    fn now(&self) -> String {
        if self.stamp == Stamp::Without {
            return String::new();
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        stamp(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
    }
}
