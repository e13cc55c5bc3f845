//! Handing an open file to another process through a unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The byte that the file travels with, because a message cannot be empty.
const CARRIER: u8 = b'F';

/// Sends `file`; the socket's timeouts apply.
pub(crate) fn send(stream: &UnixStream, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other(
            "no room for a file descriptor in a message",
        ));
    }
    sendmsg(
        stream,
        &[IoSlice::new(&[CARRIER])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives one file; the socket's timeouts apply.
pub(crate) fn receive(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut carrier = [0];
    let mut vector = [IoSliceMut::new(&mut carrier)];
    let message = recvmsg(stream, &mut vector, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let file = control.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match file {
        Some(file) if message.bytes == 1 && carrier == [CARRIER] => Ok(file),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "no file came over the socket",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_arrives_open() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&ours, writer.as_fd()).unwrap();
        drop(writer);
        File::from(receive(&theirs).unwrap())
            .write_all(b"hello")
            .unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn plain_bytes_are_not_a_file() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"F").unwrap();
        assert!(receive(&theirs).is_err());
        drop(ours);
        assert!(receive(&theirs).is_err());
    }
}
