//! Reads one output pipe of a worker to its end, or until every process of the job is gone and the
//! pipe is empty: a pipe may have been carried off to elsewhere.

use std::{io, os::fd::OwnedFd};

use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, sync::watch};

use crate::error::{Error, Result};

/// Read at once; a pipe's usual capacity.
const CHUNK: usize = 1 << 16;

/// The reading end of a worker's output.
pub(crate) struct PipeReader {
    pipe: Receiver,
    /// Becomes true when no process of the job is left.
    all_gone: watch::Receiver<bool>,
    buffer: Vec<u8>,
}

impl PipeReader {
    /// Takes over the reading end of a worker's pipe.
    pub(crate) fn new(pipe: OwnedFd, all_gone: watch::Receiver<bool>) -> Result<Self> {
        let pipe =
            Receiver::from_owned_fd(pipe).map_err(Error::system("read a worker's output"))?;
        let buffer = vec![0; CHUNK];
        Ok(Self {
            pipe,
            all_gone,
            buffer,
        })
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<&[u8]> {
        let read = tokio::select! {
            read = self.pipe.read(&mut self.buffer) => read,
            // Asks the kernel and not the runtime, whose readiness may be older than the last
            // bytes.
            _ = self.all_gone.wait_for(|gone| *gone) => {
                rustix::io::read(&self.pipe, &mut self.buffer[..]).map_err(Into::into)
            }
        };
        match read {
            Ok(0) => None,
            Ok(length) => Some(&self.buffer[..length]),
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    tracing::warn!(%error, "output of a rank is lost");
                }
                None
            }
        }
    }
}
