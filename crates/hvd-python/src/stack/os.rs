//! The signals behind the stacks: three questions to the system, each in a safe function.

#![expect(unsafe_code, reason = "signal dispositions have no safe wrapper")]

use std::mem::MaybeUninit;
use std::ptr;

/// The handler of a signal, as a number to compare; that of "nothing special" is 0.
pub(super) fn handler(signal: i32) -> usize {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` is valid for writing, and without a new action this only asks. A refusal
    // leaves the zeros, which are a valid value of this plain structure.
    unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all zeros is a valid `sigaction`, and the call above wrote another valid one.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction
}

/// A real-time signal that has no handler and is not ignored. From the top, because debuggers and
/// runtimes take theirs from the bottom.
pub(super) fn unused_signal() -> Option<i32> {
    (libc::SIGRTMIN()..=libc::SIGRTMAX())
        .rev()
        .find(|&signal| handler(signal) == libc::SIG_DFL)
}

/// Delivers a signal to this very thread, and returns when its handler has. The caller has
/// made sure that there is a handler.
pub(super) fn raise_here(signal: i32) {
    let mut only = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `only` is valid for writing and is made an empty set.
    unsafe { libc::sigemptyset(only.as_mut_ptr()) };
    // SAFETY: `only` was initialised above; a number that is no signal is refused.
    unsafe { libc::sigaddset(only.as_mut_ptr(), signal) };
    // A thread inherits what its creator has blocked, and some programs block everything.
    // SAFETY: both sets are valid, and only this thread's mask changes.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), before.as_mut_ptr()) };
    // SAFETY: `raise` only sends a signal to the calling thread; its handler is Python's, which is
    // made to run at any time in any thread.
    unsafe { libc::raise(signal) };
    // SAFETY: `before` was written above, or is the empty set that all zeros are.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
}
