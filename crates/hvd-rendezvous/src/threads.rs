//! Why a thread could not be started: the system only says that something is used up, so the limits
//! that there are, and how far they reach, are added.

use std::fs;
use std::io;

use rustix::process::{Resource, getrlimit};

use crate::Error;

impl Error {
    /// Wraps the system's refusal to start the thread of this name; for use with `map_err`.
    pub fn thread(name: &str) -> impl FnOnce(io::Error) -> Self {
        let name = name.to_owned();
        move |source| {
            let is_full = source.kind() == io::ErrorKind::WouldBlock;
            let advice = if is_full {
                advice(user_limit(), group_limit())
            } else {
                String::new()
            };
            Self::Thread {
                name,
                source,
                advice,
            }
        }
    }
}

/// What to do, given the limits of the user and of the control group, as far as they are known.
fn advice(user: Option<u64>, group: Option<String>) -> String {
    let user = user.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    let group = group.unwrap_or_else(|| "unknown".to_owned());
    format!(
        "; no more threads are allowed here: raise the user's limit (`ulimit -u`, now {user}) or that \
         of the container or control group (`pids.max`, `docker run --pids-limit`, now {group})"
    )
}

fn user_limit() -> Option<u64> {
    getrlimit(Resource::Nproc).current
}

/// The least `pids.max` of this process's control group and those above it; cgroup version 2.
fn group_limit() -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut least: Option<u64> = None;
    let mut folder = own.trim_end_matches('/');
    loop {
        let path = format!("/sys/fs/cgroup{folder}/pids.max");
        if let Ok(text) = fs::read_to_string(path)
            && let Ok(limit) = text.trim().parse()
        {
            least = Some(least.map_or(limit, |other| other.min(limit)));
        }
        match folder.rsplit_once('/') {
            Some((above, _)) => folder = above,
            None => break,
        }
    }
    Some(least.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_limit_is_named_and_another_error_is_left_alone() {
        let full = Error::thread("hvd-x")(io::ErrorKind::WouldBlock.into()).to_string();
        assert!(
            full.starts_with("cannot start the thread `hvd-x`: "),
            "{full}"
        );
        assert!(full.contains("`ulimit -u`, now "), "{full}");
        assert_eq!(
            advice(Some(7), Some("9".into())),
            "; no more threads are allowed here: raise the user's limit (`ulimit -u`, now 7) or that \
             of the container or control group (`pids.max`, `docker run --pids-limit`, now 9)"
        );
        let other = Error::thread("hvd-x")(io::ErrorKind::OutOfMemory.into()).to_string();
        assert!(!other.contains("ulimit"), "{other}");
    }
}
