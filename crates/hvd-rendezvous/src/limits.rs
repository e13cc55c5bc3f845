//! How many files this process may have open, making that as many as the system allows, and saying
//! what to do where that is not enough.

use std::fs;
use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than any process of a job has use for; systems without a limit would give millions.
const ENOUGH: u64 = 1 << 20;

/// The limit with which this process was started.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open files as far as the hard one allows. Returns the limit that this
/// process was started with, for children that should start with it too.
pub fn raise_open_files() -> Rlimit {
    let limit = getrlimit(Resource::Nofile);
    let original = *ORIGINAL.get_or_init(|| limit);
    let most = limit.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if limit.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        };
        // Refused, it stays as it was, and what does not fit says so.
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
    original
}

/// Files that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// How many have to be open at once.
    pub needed: u64,
    /// How many may be.
    pub limit: u64,
}

/// Whether this process can open so many files more; what to raise the limit to if not.
pub fn check_open_files(more: u64) -> Result<(), Shortage> {
    let open = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    fits(open, more, getrlimit(Resource::Nofile).current)
}

fn fits(open: u64, more: u64, limit: Option<u64>) -> Result<(), Shortage> {
    let needed = open + more;
    match limit {
        Some(limit) if limit < needed => Err(Shortage {
            needed: needed.next_power_of_two(),
            limit,
        }),
        _ => Ok(()),
    }
}

impl Shortage {
    /// What to do about it.
    pub fn remedy(self) -> String {
        let Self { needed, limit } = self;
        format!(
            "at most {limit} files may be open, about {needed} are needed: type `ulimit -n \
             {needed}` before the command, on every host; where that is refused, raise the hard \
             limit (as root, in /etc/security/limits.conf, with `docker run --ulimit \
             nofile={needed}`)"
        )
    }
}

/// The limit and how to raise it, for a process that has run into it.
pub fn describe() -> String {
    let limit = getrlimit(Resource::Nofile);
    match limit.current {
        Some(current) => Shortage {
            needed: (4 * current).next_power_of_two(),
            limit: current,
        }
        .remedy(),
        None => "the limit of the whole system is reached (/proc/sys/fs/file-max)".to_owned(),
    }
}

/// What to add to the text of an error of the system that is about open files; nothing for others.
pub fn explain(error: &io::Error) -> String {
    let is = |code: Errno| error.raw_os_error() == Some(code.raw_os_error());
    if is(Errno::MFILE) || is(Errno::NFILE) {
        format!("; {}", describe())
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_says_what_to_raise_to_what() {
        assert_eq!(fits(20, 44, Some(64)), Ok(()));
        assert_eq!(fits(20, 44, None), Ok(()));
        let shortage = fits(20, 100, Some(64)).unwrap_err();
        let remedy = shortage.remedy();
        assert!(remedy.starts_with("at most 64 files may be open, about 128 are needed"));
        assert!(remedy.contains("`ulimit -n 128`"), "{remedy}");
    }

    #[test]
    fn only_errors_about_files_are_explained() {
        assert!(explain(&Errno::MFILE.into()).contains("ulimit -n"));
        assert_eq!(explain(&Errno::CONNREFUSED.into()), "");
    }

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let original = raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert!(limit.current >= original.current.min(limit.maximum));
        assert_eq!(
            limit.current.min(Some(ENOUGH)),
            limit.maximum.unwrap_or(ENOUGH).min(ENOUGH).into()
        );
        assert_eq!(
            raise_open_files().current,
            original.current,
            "the second time, too"
        );
    }
}
