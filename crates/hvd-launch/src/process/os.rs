//! The system calls of the launcher that have no safe wrapper elsewhere, each in a function that
//! is safe to call. Nothing here decides anything.

#![expect(
    unsafe_code,
    reason = "fork, signal masks, local time and inherited descriptors"
)]

use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    ptr,
    time::Duration,
};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit,
};

/// The exit status of a forked child whose closure panicked.
const PANICKED: i32 = 70;

/// Forks; the child runs `child` and ends with its result as status, without returning into the
/// caller's stack. The launcher's caller, an interpreter perhaps, thus returns once and not
/// twice.
///
/// The caller must be the only thread of the process: locks held by others would stay locked in the
/// child for ever.
pub(crate) fn fork(child: impl FnOnce() -> i32) -> io::Result<Pid> {
    // SAFETY: the supervisor calls this before any thread exists, so the child's memory is
    // consistent.
    let answer = unsafe { libc::fork() };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(pid) = Pid::from_raw(answer) {
        return Ok(pid);
    }
    let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(PANICKED);
    // SAFETY: ends this process at once; the closure has returned, nothing of ours is pending.
    unsafe { libc::_exit(code) }
}

/// A set of signals.
#[derive(Clone, Copy)]
pub(crate) struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// The set of the given signals.
    pub(crate) fn new(signals: &[i32]) -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the whole set it is given.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: initialised by the call above.
        let mut set = unsafe { set.assume_init() };
        for &signal in signals {
            // SAFETY: `set` is initialised; an invalid number is refused, not undefined.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        Self(set)
    }

    /// Blocks these signals in this thread and returns what was blocked before.
    pub(crate) fn block(&self) -> Self {
        self.change_mask(libc::SIG_BLOCK)
    }

    /// Makes this set the set of blocked signals.
    pub(crate) fn restore(&self) {
        self.change_mask(libc::SIG_SETMASK);
    }

    fn change_mask(&self, how: i32) -> Self {
        let mut before = Self::new(&[]);
        // SAFETY: both sets are initialised and live for the call; it cannot fail for a valid
        // `how`.
        unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before.0) };
        before
    }

    /// Takes one pending signal of this set, which must be blocked; `None` after `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Option<i32> {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the set is initialised, no details are asked for, and a null timeout means none.
        let signal = unsafe { libc::sigtimedwait(&raw const self.0, ptr::null_mut(), timeout) };
        (signal > 0).then_some(signal)
    }
}

/// Whether the process was started with this signal ignored, as `nohup` does with SIGHUP.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only reads the present disposition into a structure that is large enough.
    let answer = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed and perhaps overwritten by the call, so initialised either way.
    let action = unsafe { action.assume_init() };
    answer == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Gives a signal its default meaning, so that no handler of a host program runs in the driver.
pub(crate) fn set_default(signal: i32) {
    // SAFETY: installs no handler of ours; the default disposition is valid for every signal.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// What a worker's process does between fork and exec: it asks the kernel to kill it as soon as
/// this process, `parent`, is gone, and takes back the user's limit of open files.
pub(crate) fn before_exec(command: &mut Command, parent: Pid, open_files: Rlimit) {
    bind_to_parent(command, parent, open_files, Signal::KILL);
}

/// The same for a process that gets another signal at the death of its parent.
pub(crate) fn bind_to_parent(
    command: &mut Command,
    parent: Pid,
    open_files: Rlimit,
    at_death: Signal,
) {
    let last_steps = move || {
        setrlimit(Resource::Nofile, open_files)?;
        set_parent_process_death_signal(Some(at_death))?;
        // The parent may have died before the line above took effect.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    };
    // SAFETY: between fork and exec it makes three system calls and allocates nothing.
    unsafe { command.pre_exec(last_steps) };
}

/// Takes over a descriptor that the parent of this process left open for it, and keeps it from
/// being inherited further.
pub(crate) fn take_inherited(number: i32) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: changes a flag of the descriptor, or fails if there is none of that number.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, as just seen, and by contract handed to us alone by its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A moment as the clock on the wall shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WallClock {
    pub(crate) weekday: usize,
    pub(crate) month: usize,
    pub(crate) day: i32,
    pub(crate) hour: i32,
    pub(crate) minute: i32,
    pub(crate) second: i32,
    pub(crate) year: i32,
}

/// The local time of a moment given in seconds since 1970; `None` if it is out of range.
pub(crate) fn local_time(seconds: i64) -> Option<WallClock> {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: reads one integer, writes one structure, both live; the reentrant variant.
    let answer = unsafe { libc::localtime_r(&raw const seconds, parts.as_mut_ptr()) };
    if answer.is_null() {
        return None;
    }
    // SAFETY: the call has succeeded, so the structure is filled in.
    let parts = unsafe { parts.assume_init() };
    Some(WallClock {
        weekday: usize::try_from(parts.tm_wday).ok()?,
        month: usize::try_from(parts.tm_mon).ok()?,
        day: parts.tm_mday,
        hour: parts.tm_hour,
        minute: parts.tm_min,
        second: parts.tm_sec,
        year: parts.tm_year + 1900,
    })
}
