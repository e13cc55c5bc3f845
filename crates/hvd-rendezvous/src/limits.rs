//! How many files this process may have open, and making that as many as the system allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than any process of a job has use for; systems without a limit would give millions.
const ENOUGH: u64 = 1 << 20;

/// Raises the soft limit of open files as far as the hard one allows. Returns the limit as it was,
/// for children that should start with it.
pub fn raise_open_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let most = before.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if before.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            maximum: before.maximum,
        };
        // Refused, it stays as it was, and what does not fit says so.
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
    before
}

/// How many files this process may have open; `None` for any number.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The limit and how to raise it, for people.
pub fn describe() -> String {
    let limit = getrlimit(Resource::Nofile);
    match (limit.current, limit.maximum) {
        (Some(current), Some(maximum)) if current < maximum => {
            format!("this process may have {current} files open; `ulimit -n {maximum}` raises that")
        }
        (Some(current), _) => format!(
            "this process may have {current} files open; raise that, as root or in \
             /etc/security/limits.conf, in Docker with `--ulimit nofile=65536`"
        ),
        (None, _) => "the limit of the whole system is reached (/proc/sys/fs/file-max)".to_owned(),
    }
}
