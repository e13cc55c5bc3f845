//! An agent's standard input and output, which an `ssh` server makes of sockets or of pipes.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
};

use rustix::fs::{FileType, fstat};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixStream, unix::pipe},
};

/// Any stream of bytes that comes in.
pub(crate) type StdinStream = Box<dyn AsyncRead + Send + Unpin>;

/// Any stream of bytes that goes out.
pub(crate) type StdoutStream = Box<dyn AsyncWrite + Send + Unpin>;

/// This process's standard input and output.
pub(crate) fn open() -> io::Result<(StdinStream, StdoutStream)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let input: StdinStream = if is_socket(&input)? {
        Box::new(socket(input)?)
    } else {
        Box::new(pipe::Receiver::from_owned_fd(input)?)
    };
    let output: StdoutStream = if is_socket(&output)? {
        Box::new(socket(output)?)
    } else {
        Box::new(pipe::Sender::from_owned_fd(output)?)
    };
    Ok((input, output))
}

fn is_socket(fd: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode) == FileType::Socket)
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdUnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
