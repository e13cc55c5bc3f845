//! Sleeping on a word of memory that other processes share.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

use super::event::timeout;

/// Sleeps while `word` holds `value`; false if `deadline` passed. May return early for no reason.
pub(crate) fn wait(word: &AtomicU32, value: u32, deadline: Option<Instant>) -> io::Result<bool> {
    let left = timeout(deadline);
    // Not the private kind: the word lies in memory shared between processes.
    match futex::wait(word, Flags::empty(), value, left.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(true),
        Err(Errno::TIMEDOUT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Wakes all threads that sleep on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // It fails for bad addresses only, which a reference is not.
    let _ = futex::wake(word, Flags::empty(), u32::MAX);
}
