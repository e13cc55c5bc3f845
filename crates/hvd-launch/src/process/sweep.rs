//! The last step of a process that adopts orphans: it ends what is left below it.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::{os::SignalSet, reaper::has_children, tree};

/// How long the last sweep waits for killed processes to go.
const SWEEP: Duration = Duration::from_secs(2);

/// Kills and reaps everything below `root` that is no stranger. Repeats whenever a child has ended:
/// its children may have become visible by that.
pub(crate) fn sweep(root: Pid, unrelated: &HashSet<i32>) {
    let child_ended = SignalSet::new(&[libc::SIGCHLD]);
    let mask = child_ended.block();
    let deadline = Instant::now() + SWEEP;
    while has_children() {
        for child in tree::children(root).difference(unrelated) {
            let _ = waitpid(Pid::from_raw(*child), WaitOptions::NOHANG);
        }
        let left = tree::descendants(root, unrelated);
        let now = Instant::now();
        if left.is_empty() || now > deadline {
            break;
        }
        tree::signal_all(left, Signal::KILL);
        child_ended.wait(Some(deadline - now));
    }
    mask.restore();
}
