//! Cores that the engine thread may be bound to. Owns the two system calls; must not know who chose
//! the core.

use std::fmt::Write as _;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A core that this process may run on, as was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core(usize);

/// Why a thread cannot be bound to a core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("core {core} is not one that this process may use; it may use {usable}")]
pub struct UnusableCore {
    core: usize,
    /// As the kernel writes such lists: `0-3,8`.
    usable: String,
}

impl Core {
    /// A core by its number. The calling thread is bound to it for a moment: that is the one sure
    /// way to find out whether it may be.
    pub fn new(number: usize) -> Result<Self, UnusableCore> {
        let before = sched_getaffinity(None).unwrap_or_default();
        let core = Self(number);
        if number >= CpuSet::MAX_CPU || core.bind().is_err() {
            return Err(UnusableCore {
                core: number,
                usable: list(&before),
            });
        }
        // It was allowed a moment ago, and the thread is short-lived if it is not any more.
        let _ = sched_setaffinity(None, &before);
        Ok(core)
    }

    /// Binds the calling thread.
    pub(crate) fn bind(self) -> std::io::Result<()> {
        let mut only = CpuSet::new();
        only.set(self.0);
        Ok(sched_setaffinity(None, &only)?)
    }
}

/// The cores of a set as ranges.
fn list(set: &CpuSet) -> String {
    let mut text = String::new();
    let mut next = 0;
    while let Some(first) = (next..CpuSet::MAX_CPU).find(|&core| set.is_set(core)) {
        let end = (first..CpuSet::MAX_CPU).find(|&core| !set.is_set(core));
        next = end.unwrap_or(CpuSet::MAX_CPU);
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = match next - 1 {
            last if last == first => write!(text, "{comma}{first}"),
            last => write!(text, "{comma}{first}-{last}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_usable() -> usize {
        let set = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).find(|&core| set.is_set(core)).unwrap()
    }

    #[test]
    fn trying_a_core_leaves_the_thread_as_it_was() {
        let before = sched_getaffinity(None).unwrap();
        let core = Core::new(first_usable()).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                core.bind().unwrap();
                assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
            });
        });
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn a_core_that_is_not_there_is_refused_with_those_that_are() {
        for number in [1023, 1024, usize::MAX] {
            let text = Core::new(number).unwrap_err().to_string();
            let beginning =
                format!("core {number} is not one that this process may use; it may use ");
            assert!(text.starts_with(&beginning), "{text}");
        }
    }

    #[test]
    fn cores_are_listed_as_ranges() {
        let listed = |cores: &[usize]| {
            let mut set = CpuSet::new();
            for &core in cores {
                set.set(core);
            }
            list(&set)
        };
        assert_eq!(listed(&[]), "");
        assert_eq!(listed(&[3]), "3");
        assert_eq!(listed(&[0, 1, 2, 8, 1022, 1023]), "0-2,8,1022-1023");
    }
}
