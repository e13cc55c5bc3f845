//! The launcher's own stdout and stderr. Keeps lines whole: when a rank's last line came without a
//! line end, one is put in before anything else is written, but none at the very end. If stdout
//! and stderr are the same terminal or file, they count as one place.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::fstat,
};

use super::output::Stream;

/// Where forwarded output and the launcher's own lines go.
#[derive(Debug)]
pub(super) struct Console<W> {
    writers: [W; 2],
    same_place: bool,
    unfinished: [bool; 2],
}

impl Console<File> {
    /// The console this process was started with.
    pub(super) fn open() -> io::Result<Self> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let same_place = is_same_file(stdout.as_fd(), stderr.as_fd());
        let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
        Ok(Self::new(
            [own(stdout.as_fd())?, own(stderr.as_fd())?],
            same_place,
        ))
    }
}

impl<W: Write + AsFd> Console<W> {
    fn new(writers: [W; 2], same_place: bool) -> Self {
        Self {
            writers,
            same_place,
            unfinished: [false; 2],
        }
    }

    /// Writes whole lines, the last of which may lack its end, in one piece.
    pub(super) fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let Some(last) = bytes.last() else {
            return Ok(());
        };
        let index = stream as usize;
        let place = if self.same_place { 0 } else { index };
        let writer = &mut self.writers[index];
        if std::mem::replace(&mut self.unfinished[place], !matches!(last, b'\n' | b'\r')) {
            let joined = [b"\n", bytes].concat();
            return write_fully(writer, &joined);
        }
        write_fully(writer, bytes)
    }
}

/// Like `write_all`, but patient with a terminal that someone else has made non-blocking.
fn write_fully(writer: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match writer.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut writable = [PollFd::new(&*writer, PollFlags::OUT)];
                poll(&mut writable, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_same_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    fn written(same_place: bool, pieces: &[(Stream, &str)]) -> [String; 2] {
        let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        let mut console = Console::new(files, same_place);
        for (stream, text) in pieces {
            console.write(*stream, text.as_bytes()).unwrap();
        }
        console.writers.map(|mut file| {
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            text
        })
    }

    #[test]
    fn an_unfinished_line_is_ended_only_when_something_follows() {
        use Stream::{Stderr, Stdout};
        let pieces = [
            (Stdout, "a"),
            (Stdout, "b\n"),
            (Stdout, "c\r"),
            (Stdout, "d"),
            (Stderr, "e"),
        ];
        assert_eq!(written(false, &pieces), ["a\nb\nc\rd", "e"]);
        assert_eq!(written(true, &pieces), ["a\nb\nc\rd", "\ne"]);
    }
}
