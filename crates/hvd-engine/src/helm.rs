//! Who runs the cycle: the engine thread, or a caller that waits for an operation.
//!
//! A blocking call on an idle engine would cost two changes of threads, there and back, if only the
//! engine thread ran the [`Cycle`]. So the cycle stands behind a lock, and a caller that waits takes
//! the helm if it can: it runs the cycle until its operation has ended. The engine thread, relieved,
//! rests; it comes back when something is left to do ([`Helm::rouse`]), and when no caller has been
//! at the helm for [`REST`], because other ranks may need an answer of this one at any time.
//!
//! - `HELM-1` whatever is submitted is seen: by whoever is at the helm, who drains the queue before
//!   each sleep, or by the engine thread, which is roused.
//! - `HELM-2` a caller leaves the helm when its operation has ended, and rouses the engine thread if
//!   anything else is under way.
//! - `HELM-3` only the engine thread ends the engine. A caller that meets the end leaves it to that.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use hvd_transport::{Transport, Waker};

use crate::cycle::Cycle;
use crate::engine::Farewell;
use crate::handle::Completion;

/// How long the engine thread rests after a caller was at the helm. Blocking calls in a loop come
/// sooner than this; the engine thread then takes part in none of them.
const REST: Duration = Duration::from_millis(2);

/// The cycle, and the order in which threads run it.
pub(crate) struct Helm {
    /// None once the engine has ended.
    cycle: Mutex<Option<Cycle>>,
    /// Ends the sleep of whoever is at the helm.
    waker: Waker,
    /// Whether the engine thread sleeps at the helm.
    watching: AtomicBool,
    /// Whether a caller wants to relieve it.
    wanted: AtomicBool,
    /// Counts the callers that have been at the helm.
    reliefs: AtomicU32,
    /// Whether the engine thread has a reason to end its rest.
    roused: Mutex<bool>,
    rest: Condvar,
}

impl Helm {
    pub(crate) fn new(cycle: Cycle) -> Self {
        Self {
            waker: cycle.waker(),
            cycle: Mutex::new(Some(cycle)),
            watching: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            reliefs: AtomicU32::new(0),
            roused: Mutex::new(false),
            rest: Condvar::new(),
        }
    }

    /// For the engine thread: runs the cycle, except while callers do, until the engine ends.
    pub(crate) fn run(&self, farewell: impl FnOnce(Farewell, Box<dyn Transport>)) {
        loop {
            let mut helm = self.lock();
            let Some(cycle) = helm.as_mut() else { return };
            self.watch(cycle);
            if cycle.is_over() {
                let cycle = helm.take();
                drop(helm);
                if let Some(cycle) = cycle {
                    cycle.end(farewell);
                }
                return;
            }
            drop(helm);
            self.rest();
        }
    }

    /// Runs the cycle until it is over or a caller wants the helm.
    fn watch(&self, cycle: &mut Cycle) {
        while !cycle.is_over() && !self.wanted.load(Ordering::SeqCst) {
            if cycle.turn().is_idle() {
                self.watching.store(true, Ordering::SeqCst);
                // A caller that saw the mark has raised its flag or will ring; one that did not
                // has to wait for its operation like anybody else.
                if !self.wanted.load(Ordering::SeqCst) {
                    cycle.sleep(None);
                }
                self.watching.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Sleeps until there is something to do, or no caller has come for a while.
    fn rest(&self) {
        let mut roused = self.roused();
        loop {
            let reliefs = self.reliefs.load(Ordering::SeqCst);
            let (guard, timeout) = self
                .rest
                .wait_timeout_while(roused, REST, |roused| !*roused)
                .unwrap_or_else(PoisonError::into_inner);
            roused = guard;
            if *roused || timeout.timed_out() && self.reliefs.load(Ordering::SeqCst) == reliefs {
                *roused = false;
                return;
            }
        }
    }

    /// For a caller: runs the cycle until `completion` is done or `end` has come, if nobody else
    /// does. The engine thread is relieved for it if `relieve` says so.
    pub(crate) fn steer(&self, completion: &Completion, end: Instant, relieve: bool) {
        let Some(mut helm) = self.take(relieve) else {
            return;
        };
        let Some(cycle) = helm.as_mut() else { return };
        cycle.set_eager(true);
        let finished = || completion.is_done() || Instant::now() >= end;
        loop {
            let turn = cycle.turn();
            if cycle.is_over() || finished() {
                break;
            }
            if turn.is_idle() {
                cycle.sleep(Some(end));
            }
        }
        // What others have submitted meanwhile, and whether there is more to do.
        let leaves_work = cycle.is_over() || !cycle.turn().is_idle() || cycle.is_engaged();
        cycle.set_eager(false);
        drop(helm);
        self.reliefs.fetch_add(1, Ordering::SeqCst);
        if leaves_work {
            self.resume();
        }
    }

    /// The helm, for a caller; none if the engine thread or another caller has its hands full.
    fn take(&self, relieve: bool) -> Option<MutexGuard<'_, Option<Cycle>>> {
        match self.cycle.try_lock() {
            Ok(helm) => return Some(helm),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
        if !relieve || !self.watching.load(Ordering::SeqCst) {
            return None;
        }
        if self.wanted.swap(true, Ordering::SeqCst) {
            return None;
        }
        self.waker.wake();
        let helm = self.lock();
        self.wanted.store(false, Ordering::SeqCst);
        Some(helm)
    }

    /// Has somebody look at what was submitted.
    pub(crate) fn rouse(&self) {
        self.waker.wake();
        self.resume();
    }

    fn resume(&self) {
        let mut roused = self.roused();
        if !std::mem::replace(&mut *roused, true) {
            drop(roused);
            self.rest.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Cycle>> {
        self.cycle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roused(&self) -> MutexGuard<'_, bool> {
        self.roused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
