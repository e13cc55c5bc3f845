//! The launcher's own stdout and stderr. Keeps lines whole: when a rank's last line came without a
//! line end, one is put in before anything else is written, but none at the very end. If stdout
//! and stderr are the same terminal or file, they count as one place.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::fstat;

use super::outlet::{Outlet, WriteAttempt};
use crate::process::Stream;

/// Where forwarded output and the launcher's own lines go.
#[derive(Debug)]
pub(super) struct Console<W> {
    outlets: [Outlet<W>; 2],
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
    fn new([stdout, stderr]: [W; 2], same_place: bool) -> Self {
        Self {
            outlets: [
                Outlet::new("standard output".to_owned(), stdout),
                Outlet::new("standard error".to_owned(), stderr),
            ],
            same_place,
            unfinished: [false; 2],
        }
    }

    /// Writes whole lines, the last of which may lack its end, in one piece.
    pub(super) fn write(&mut self, stream: Stream, bytes: &[u8]) -> WriteAttempt {
        let index = stream as usize;
        let place = if self.same_place { 0 } else { index };
        let head: &[u8] = match bytes {
            [_, ..] if self.unfinished[place] => b"\n",
            _ => b"",
        };
        let attempt = self.outlets[index].write(head, bytes);
        if let Some(is_unfinished) = attempt.is_unfinished {
            self.unfinished[place] = is_unfinished;
        }
        attempt
    }

    /// Whether everything was written.
    pub(super) fn is_complete(&self) -> bool {
        self.outlets.iter().all(Outlet::is_complete)
    }

    /// What the user has to know at the end about either stream.
    pub(super) fn summaries(&self) -> Vec<String> {
        self.outlets.iter().filter_map(Outlet::summary).collect()
    }
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
        let writers = files.each_ref().map(|file| file.try_clone().unwrap());
        let mut console = Console::new(writers, same_place);
        for (stream, text) in pieces {
            assert!(console.write(*stream, text.as_bytes()).notice.is_none());
        }
        files.map(|mut file| {
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
