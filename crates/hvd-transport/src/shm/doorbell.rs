//! What one rank of a host sleeps on, and others ring.
//!
//! ```text
//! 0 sequence u32, counts rings | 4 sleeping u32, 1 while the owner may be asleep
//! ```
//!
//! A peer that changed something the owner may wait for calls [`Doorbell::notify`], which costs a
//! fence and a load while the owner is awake. The owner says that it is going to sleep, looks a
//! last time, and sleeps:
//!
//! ```text
//! peer                                   owner
//!   store to the ring       (P1)           sleeping = 1             (O1)
//!   fence                                  fence
//!   load sleeping           (P2)           load the ring            (O2)
//!   if 1: sequence += 1, wake              nothing there: sleep while sequence is unchanged
//! ```
//!
//! Where the owner waits for connections too, it does not sleep on the sequence but in `poll`, and
//! is woken by a [`Flag`]; the rest is the same.
//!
//! - `BELL-1` of the two fences one comes first, so either P2 sees O1 or O2 sees P1: an event is
//!   never missed. If P2 sees O1, the sequence changes after the owner read it, and the kernel
//!   refuses to sleep or is woken.
//! - `BELL-2` a waker and an abort change no ring, so they always count up ([`Doorbell::ring`]);
//!   the owner compares with the count as of the end of its last sleep. As with BELL-1, one of the
//!   fences comes first: the owner sees the new count, or is woken.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::atomic::{AtomicU32, Ordering, fence};
use crate::os::event::Flag;
use crate::os::futex;
use crate::os::memory::Mapping;

/// One rank's doorbell.
#[derive(Debug, Clone)]
pub(crate) struct Doorbell {
    memory: Arc<Mapping>,
    offset: usize,
    /// What the owner sleeps on, if not on the sequence.
    pub(super) flag: Option<Arc<Flag>>,
}

impl Doorbell {
    pub(super) fn new(memory: Arc<Mapping>, offset: usize, flag: Option<Arc<Flag>>) -> Self {
        Self {
            memory,
            offset,
            flag,
        }
    }

    fn sequence(&self) -> &AtomicU32 {
        self.memory.word(self.offset)
    }

    fn sleeping(&self) -> &AtomicU32 {
        self.memory.word(self.offset + 4)
    }

    /// Tells the owner, if it may be asleep, that a ring has changed.
    pub(super) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping().load(Ordering::Relaxed) != 0 {
            self.sequence().fetch_add(1, Ordering::SeqCst);
            self.wake();
        }
    }

    /// Ends the owner's sleep, or its next one.
    pub(crate) fn ring(&self) {
        self.sequence().fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.sleeping().load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        match &self.flag {
            None => futex::wake(self.sequence()),
            Some(flag) => flag.raise(),
        }
    }

    /// How often the bell was rung.
    pub(super) fn count(&self) -> u32 {
        self.sequence().load(Ordering::SeqCst)
    }

    /// For the owner: sleeps on the sequence unless the bell was rung since `seen` or `has_work`
    /// says that there is no reason to. False if `deadline` passed.
    pub(super) fn sleep(
        &self,
        seen: u32,
        deadline: Option<Instant>,
        has_work: impl FnOnce() -> bool,
    ) -> io::Result<bool> {
        let sleep = || futex::wait(self.sequence(), seen, deadline);
        self.sleep_by(seen, has_work, sleep).unwrap_or(Ok(true))
    }

    /// For the owner: calls `sleep`, which ends when the bell's flag is raised, and returns its
    /// outcome; none if there is no reason to sleep.
    pub(crate) fn sleep_by<T>(
        &self,
        seen: u32,
        has_work: impl FnOnce() -> bool,
        sleep: impl FnOnce() -> T,
    ) -> Option<T> {
        self.sleeping().store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let has_reason = self.count() != seen || has_work();
        let outcome = (!has_reason).then(sleep);
        self.sleeping().store(0, Ordering::SeqCst);
        outcome
    }
}
