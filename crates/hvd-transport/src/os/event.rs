//! A flag that one thread raises and another polls for together with its sockets, and `poll`
//! itself with a moment instead of a timeout.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, Timespec, eventfd};
use rustix::io::Errno;

/// A flag that is readable, in the sense of `poll`, while it is raised.
#[derive(Debug)]
pub(crate) struct Flag(OwnedFd);

impl Flag {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// Raises the flag; any thread, never blocks.
    pub(crate) fn raise(&self) {
        // The one possible refusal is a counter at its limit, and then the flag is raised.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Lowers the flag.
    pub(crate) fn lower(&self) {
        // The one possible refusal is a counter at zero, and then the flag is down.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// A flag that another process has handed over.
impl From<OwnedFd> for Flag {
    fn from(file: OwnedFd) -> Self {
        Self(file)
    }
}

/// What to hand to another process.
impl From<Flag> for OwnedFd {
    fn from(flag: Flag) -> Self {
        flag.0
    }
}

impl AsFd for Flag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of `fds` is ready; false if `deadline` passed first. A signal counts as ready.
pub(crate) fn poll(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<bool> {
    let left = timeout(deadline);
    match rustix::event::poll(fds, left.as_ref()) {
        Ok(0) => Ok(false),
        Ok(_) | Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The time until `deadline` as the kernel wants it; none if there is none, or it is so far that
/// the kernel cannot count it.
pub(crate) fn timeout(deadline: Option<Instant>) -> Option<Timespec> {
    let left = deadline?.saturating_duration_since(Instant::now());
    Timespec::try_from(left).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::PollFlags;

    use super::*;

    #[test]
    fn a_flag_stays_up_until_lowered() {
        let flag = Flag::new().unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        let look = || poll(&mut [PollFd::new(&flag, PollFlags::IN)], soon()).unwrap();
        assert!(!look());
        flag.raise();
        flag.raise();
        assert!(look() && look());
        flag.lower();
        assert!(!look());
        flag.lower();
    }
}
