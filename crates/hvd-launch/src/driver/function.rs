//! The launcher's part in `horovod.run()`: the function comes in on standard input and is stored
//! for the workers; after a successful job the results leave through an inherited pipe. If a rank's
//! exception ended the job, what that rank says about it leaves through the pipe instead.
//!
//! ```text
//! results pipe, per rank in order:  length u64 little-endian | that many bytes
//! after a failure:                  the same, once
//! ```
//!
//! What the bytes mean is known only to the Python at both ends.

use std::{io, os::fd::AsFd};

use hvd_rendezvous::Server;
use hvd_types::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe::{Receiver, Sender},
};

use crate::{
    error::{Error, Result},
    process::os,
};

/// Key of the function in the store.
const FUNCTION: &str = "runfunc/func";

/// The largest function that is accepted, with all it has captured; the store takes no larger
/// values either.
const FUNCTION_LIMIT: u64 = 255 << 20;

/// Reads the function from standard input and stores it.
pub(crate) async fn store_function(server: &Server) -> Result<()> {
    let blob = read_input()
        .await
        .map_err(|source| Error::FunctionInput { source })?;
    server.put(FUNCTION, &blob)?;
    Ok(())
}

async fn read_input() -> io::Result<Vec<u8>> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let mut blob = Vec::new();
    let pipe = Receiver::from_owned_fd(input)?;
    let length = pipe.take(FUNCTION_LIMIT + 1).read_to_end(&mut blob).await?;
    if length as u64 > FUNCTION_LIMIT {
        return Err(io::Error::other(
            "the function and what it captured exceed 255 MiB",
        ));
    }
    Ok(blob)
}

/// The lowest rank that has stored something about its exception.
pub(crate) fn first_with_error(server: &Server, ranks: usize) -> Option<Rank> {
    let mut ranks = (0..ranks).map(Rank::from_index);
    ranks.find(|&rank| server.get(&error_key(rank)).is_some())
}

fn error_key(rank: Rank) -> String {
    format!("runfunc_error/{rank}")
}

/// The pipe that gets the results.
pub(crate) struct Results {
    number: i32,
    pipe: Sender,
}

impl Results {
    /// Takes over the inherited pipe; fails if its other end is gone already.
    pub(crate) fn open(number: i32) -> Result<Self> {
        let refused = |source| Error::Results { fd: number, source };
        let pipe = os::take_inherited(number).map_err(refused)?;
        let mut state = [PollFd::new(&pipe, PollFlags::empty())];
        poll(&mut state, Some(&Timespec::default())).map_err(|error| refused(error.into()))?;
        if state[0].revents().contains(PollFlags::ERR) {
            return Err(refused(io::ErrorKind::BrokenPipe.into()));
        }
        let pipe = Sender::from_owned_fd(pipe).map_err(refused)?;
        Ok(Self { number, pipe })
    }

    /// Writes the results of all ranks.
    pub(crate) async fn write(mut self, server: &Server, ranks: usize) -> Result<()> {
        for rank in (0..ranks).map(Rank::from_index) {
            let key = format!("runfunc_result/{rank}");
            let result = server.get(&key).ok_or(Error::ResultMissing { rank })?;
            self.write_one(&result).await?;
        }
        Ok(())
    }

    /// Writes what a failed rank has stored about its exception. Returns whether there was anything
    /// and it has left; if not, the launcher has to report the failure.
    pub(crate) async fn write_error(mut self, server: &Server, rank: Rank) -> bool {
        match server.get(&error_key(rank)) {
            Some(error) => self.write_one(&error).await.is_ok(),
            None => false,
        }
    }

    async fn write_one(&mut self, value: &[u8]) -> Result<()> {
        let fd = self.number;
        let refused = |source| Error::Results { fd, source };
        let length = (value.len() as u64).to_le_bytes();
        self.pipe.write_all(&length).await.map_err(refused)?;
        self.pipe.write_all(value).await.map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use hvd_rendezvous::JobKey;

    use super::*;

    fn server() -> Server {
        Server::start("127.0.0.1:0", &JobKey::generate().unwrap()).unwrap()
    }

    /// A results pipe and the end that Python reads.
    fn results() -> (Results, io::PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let pipe = Sender::from_owned_fd(writer.into()).unwrap();
        (Results { number: 3, pipe }, reader)
    }

    #[tokio::test]
    async fn results_leave_in_the_order_of_ranks_each_with_its_length() {
        let (server, (results, mut reader)) = (server(), results());
        server.put("runfunc_result/1", b"second").unwrap();
        server.put("runfunc_result/0", b"").unwrap();
        results.write(&server, 2).await.unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"\0\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0second");
    }

    #[tokio::test]
    async fn the_error_of_the_rank_that_failed_leaves_alone() {
        let (server, (results, mut reader)) = (server(), results());
        server.put("runfunc_result/0", b"well").unwrap();
        server.put("runfunc_error/1", b"why").unwrap();
        assert!(results.write_error(&server, Rank::new(1)).await);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"\x03\0\0\0\0\0\0\0why");
        let (results, reader) = self::results();
        assert!(!results.write_error(&server, Rank::new(0)).await);
        drop(reader);
        let (results, reader) = self::results();
        drop(reader);
        assert!(!results.write_error(&server, Rank::new(1)).await);
    }

    #[tokio::test]
    async fn a_missing_result_and_a_missing_reader_are_named() {
        let server = server();
        let (pipe, _reader) = results();
        let error = pipe.write(&server, 1).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "rank 0 ended without delivering the result of the function"
        );
        let (pipe, reader) = results();
        drop(reader);
        server.put("runfunc_result/0", b"x").unwrap();
        let error = pipe.write(&server, 1).await.unwrap_err().to_string();
        assert!(
            error.starts_with("cannot hand over the results on file descriptor 3"),
            "{error}"
        );
    }
}
