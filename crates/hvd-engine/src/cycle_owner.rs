//! Which thread runs the cycle: the engine thread, or a caller that waits for an operation.
//!
//! If only the engine thread ran the [`Cycle`], a blocking call on an idle engine would cost two
//! thread switches. So the cycle is behind a lock, and a caller that waits takes ownership if it
//! can: it runs the cycle until its operation has ended. The engine thread parks meanwhile; it
//! continues when work is left ([`CycleOwner::wake`]), and when no caller has owned the cycle for
//! [`PARK`], because other ranks may need an answer from this one at any time.
//!
//! - `OWNER-1` every submission is seen: by the owner, who drains the queue before each sleep, or
//!   by the engine thread, which is woken.
//! - `OWNER-2` a caller gives up ownership when its operation has ended, and wakes the engine
//!   thread if anything else is in flight.
//! - `OWNER-3` only the engine thread ends the engine. A caller that finds the engine over leaves
//!   that to it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use hvd_transport::{Transport, Waker};

use crate::cycle::Cycle;
use crate::engine::ExitReport;
use crate::handle::Completion;

/// How long the engine thread parks after a caller has owned the cycle. The calls of a blocking
/// loop come sooner than this, so the engine thread takes part in none of them.
const PARK: Duration = Duration::from_millis(2);

/// The cycle, and the order in which threads run it.
pub(crate) struct CycleOwner {
    /// None once the engine has ended.
    cycle: Mutex<Option<Cycle>>,
    /// Ends the owner's sleep.
    waker: Waker,
    /// Whether the engine thread owns the cycle and sleeps.
    engine_thread_sleeps: AtomicBool,
    /// Whether a caller asks the engine thread for ownership.
    hand_over_requested: AtomicBool,
    /// Counts the callers that have owned the cycle.
    hand_overs: AtomicU32,
    /// Whether the engine thread has a reason to stop parking.
    unpark: Mutex<bool>,
    parked: Condvar,
}

impl CycleOwner {
    pub(crate) fn new(cycle: Cycle) -> Self {
        Self {
            waker: cycle.waker(),
            cycle: Mutex::new(Some(cycle)),
            engine_thread_sleeps: AtomicBool::new(false),
            hand_over_requested: AtomicBool::new(false),
            hand_overs: AtomicU32::new(0),
            unpark: Mutex::new(false),
            parked: Condvar::new(),
        }
    }

    /// For the engine thread: runs the cycle, except while callers do, until the engine ends.
    pub(crate) fn run(&self, on_exit: impl FnOnce(ExitReport, Box<dyn Transport>)) {
        loop {
            let mut owned = self.lock();
            let Some(cycle) = owned.as_mut() else { return };
            self.run_until_hand_over(cycle);
            if cycle.is_over() {
                let cycle = owned.take();
                drop(owned);
                if let Some(cycle) = cycle {
                    cycle.end(on_exit);
                }
                return;
            }
            drop(owned);
            self.park();
        }
    }

    /// Runs the cycle until it is over or a caller asks for ownership.
    fn run_until_hand_over(&self, cycle: &mut Cycle) {
        while !cycle.is_over() && !self.hand_over_requested.load(Ordering::SeqCst) {
            if cycle.turn().is_idle() {
                self.engine_thread_sleeps.store(true, Ordering::SeqCst);
                // A caller that saw the mark has raised its flag or is about to wake this thread;
                // one that did not waits for its operation without running the cycle.
                if !self.hand_over_requested.load(Ordering::SeqCst) {
                    cycle.sleep(None);
                }
                self.engine_thread_sleeps.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Sleeps until there is something to do, or no caller has come for [`PARK`].
    fn park(&self) {
        let mut unpark = self.unpark_flag();
        loop {
            let hand_overs = self.hand_overs.load(Ordering::SeqCst);
            let (guard, timeout) = self
                .parked
                .wait_timeout_while(unpark, PARK, |unpark| !*unpark)
                .unwrap_or_else(PoisonError::into_inner);
            unpark = guard;
            let is_alone = self.hand_overs.load(Ordering::SeqCst) == hand_overs;
            if *unpark || timeout.timed_out() && is_alone {
                *unpark = false;
                return;
            }
        }
    }

    /// For a caller: runs the cycle until `completion` is done or `end` has come, unless another
    /// thread runs it. The sleeping engine thread hands it over if `hand_over` is set.
    pub(crate) fn run_until(&self, completion: &Completion, end: Instant, hand_over: bool) {
        let Some(mut owned) = self.take(hand_over) else {
            return;
        };
        let Some(cycle) = owned.as_mut() else { return };
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
        // Submissions of other threads in the meantime, and whether there is more to do.
        let leaves_work = cycle.is_over() || !cycle.turn().is_idle() || cycle.is_engaged();
        cycle.set_eager(false);
        drop(owned);
        self.hand_overs.fetch_add(1, Ordering::SeqCst);
        if leaves_work {
            self.unpark();
        }
    }

    /// The cycle, for a caller; none if the engine thread or another caller is busy with it.
    fn take(&self, hand_over: bool) -> Option<MutexGuard<'_, Option<Cycle>>> {
        match self.cycle.try_lock() {
            Ok(owned) => return Some(owned),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
        if !hand_over || !self.engine_thread_sleeps.load(Ordering::SeqCst) {
            return None;
        }
        if self.hand_over_requested.swap(true, Ordering::SeqCst) {
            return None;
        }
        self.waker.wake();
        let owned = self.lock();
        self.hand_over_requested.store(false, Ordering::SeqCst);
        Some(owned)
    }

    /// Makes the owner, or the parked engine thread, look at the queue.
    pub(crate) fn wake(&self) {
        self.waker.wake();
        self.unpark();
    }

    fn unpark(&self) {
        let mut unpark = self.unpark_flag();
        if !std::mem::replace(&mut *unpark, true) {
            drop(unpark);
            self.parked.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Cycle>> {
        self.cycle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unpark_flag(&self) -> MutexGuard<'_, bool> {
        self.unpark.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
