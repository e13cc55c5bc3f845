//! One place that output is written to: the launcher's stdout or stderr, or a file of
//! `--output-filename`. A write that fails loses lines and is tried again with the next ones; the
//! first failure, the first success after it and the number of lines lost are reported, so that a
//! flapping disk does not fill the console. Only a closed pipe is final.

use std::{
    io::{self, Write},
    os::fd::AsFd,
};

use rustix::event::{PollFd, PollFlags, poll};

use crate::messages;

/// One place that output is written to.
#[derive(Debug)]
pub(super) struct Outlet<W> {
    /// As messages name it.
    name: String,
    writer: W,
    /// Lines that could not be written, wholly or in part.
    lost: u64,
    /// How many of them were reported to the user.
    told: u64,
    /// The most recent failure, if there was one.
    failure: Option<String>,
    is_failing: bool,
    has_recovered: bool,
}

/// What became of one write.
#[derive(Debug)]
pub(super) struct WriteAttempt {
    /// Lines that could not be written, wholly or in part.
    pub(super) lost: u64,
    /// Whether the head was written.
    pub(super) has_head: bool,
    /// Whether the output now ends within a line; unknown if nothing was written.
    pub(super) is_unfinished: Option<bool>,
    /// What the user has to know, if anything.
    pub(super) notice: Option<String>,
    /// Whether the reader of a pipe has gone.
    pub(super) is_closed: bool,
}

impl<W: Write + AsFd> Outlet<W> {
    /// An outlet that messages call `name`.
    pub(super) fn new(name: String, writer: W) -> Self {
        Self {
            name,
            writer,
            lost: 0,
            told: 0,
            failure: None,
            is_failing: false,
            has_recovered: false,
        }
    }

    /// Writes `head`, which is none of the ranks' and not counted, and then whole lines, the last
    /// of which may lack its end; or as much of that as possible.
    pub(super) fn write(&mut self, head: &[u8], bytes: &[u8]) -> WriteAttempt {
        let joined;
        let all = if head.is_empty() {
            bytes
        } else {
            joined = [head, bytes].concat();
            &joined
        };
        let (written, result) = write_fully(&mut self.writer, all);
        let is_closed = matches!(&result, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        let lost = lines(&bytes[written.saturating_sub(head.len())..]);
        let notice = match result {
            Ok(()) => self.worked(),
            Err(error) => self.failed(lost, &error),
        };
        WriteAttempt {
            lost,
            has_head: written >= head.len(),
            is_unfinished: all[..written]
                .last()
                .map(|last| !matches!(last, b'\n' | b'\r')),
            notice,
            is_closed,
        }
    }

    fn worked(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_failing) || self.has_recovered {
            return None;
        }
        self.has_recovered = true;
        self.told = self.lost;
        Some(messages::writable_again(&self.name, self.lost))
    }

    fn failed(&mut self, lost: u64, error: &io::Error) -> Option<String> {
        self.lost += lost;
        self.is_failing = true;
        let is_first = self.failure.is_none();
        self.failure = Some(error.to_string());
        is_first.then(|| messages::unwritable(&self.name, error))
    }

    /// What the user has to know at the end, if anything.
    pub(super) fn summary(&self) -> Option<String> {
        let failure = self.failure.as_ref().filter(|_| self.lost > self.told)?;
        Some(messages::lines_lost(&self.name, self.lost, failure))
    }

    /// Whether everything was written.
    pub(super) fn is_complete(&self) -> bool {
        self.lost == 0
    }
}

/// Lines in `bytes`, with one that lacks its end.
fn lines(bytes: &[u8]) -> u64 {
    bytes.split_inclusive(|&byte| byte == b'\n').count() as u64
}

/// Like `write_all`, but waits for a terminal that another process has made non-blocking. Returns
/// how many bytes were written, too.
fn write_fully(writer: &mut (impl Write + AsFd), bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match writer.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(length) => written += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut writable = [PollFd::new(&*writer, PollFlags::OUT)];
                if let Err(error) = poll(&mut writable, None) {
                    return (written, Err(error.into()));
                }
            }
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        os::fd::{BorrowedFd, OwnedFd},
    };

    use super::*;

    /// Has room for so many bytes.
    struct Disk {
        room: usize,
        file: File,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = bytes.len().min(self.room);
            if length == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= length;
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl AsFd for Disk {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.file.as_fd()
        }
    }

    fn disk(room: usize) -> Outlet<Disk> {
        let file = tempfile::tempfile().unwrap();
        Outlet::new("the log".to_owned(), Disk { room, file })
    }

    #[test]
    fn a_full_disk_is_told_once_its_recovery_once_and_the_rest_at_the_end() {
        let mut outlet = disk(6);
        assert!(outlet.write(b"", b"one\n").notice.is_none() && outlet.is_complete());
        let failed = outlet.write(b"", b"two\nthree\n");
        assert_eq!((failed.lost, failed.is_closed), (2, false));
        assert_eq!(failed.is_unfinished, Some(true));
        let notice = failed.notice.unwrap();
        assert!(notice.starts_with("cannot write the log: "), "{notice}");
        assert!(outlet.write(b"", b"four\n").notice.is_none());
        let summary = outlet.summary().unwrap();
        assert!(summary.starts_with("3 lines of the log"), "{summary}");

        outlet.writer.room = 5;
        let notice = outlet.write(b"", b"five\n").notice.unwrap();
        assert!(notice.contains("again; 3 lines were lost"), "{notice}");
        assert_eq!((outlet.summary(), outlet.is_complete()), (None, false));

        for room in [0, 5, 0] {
            outlet.writer.room = room;
            assert!(outlet.write(b"", b"six.\n").notice.is_none(), "it flaps");
        }
        assert!(outlet.summary().unwrap().starts_with("5 lines"));
    }

    #[test]
    fn only_a_closed_pipe_is_final() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut outlet = Outlet::new("a pipe".to_owned(), File::from(writer));
        assert!(!outlet.write(b"", b"x\n").is_closed);
        drop::<OwnedFd>(reader);
        assert!(outlet.write(b"", b"x\n").is_closed);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let attempt = Outlet::new("a disk".to_owned(), full).write(b"", b"x\n");
        assert!(!attempt.is_closed && attempt.notice.is_some());
    }
}
