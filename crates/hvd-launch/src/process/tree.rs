//! All processes below one: found through `/proc` by their parents. Because the launcher's
//! processes adopt orphans (child subreaper), a grandchild that changed its session or lost its
//! parent is still below them.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use rustix::process::{Pid, Signal, kill_process};

/// One process as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    /// Its process group.
    pub(crate) group: i32,
    parent: i32,
    is_zombie: bool,
}

/// The processes below `root`, without `root`, without those that have ended and only wait to be
/// reaped, and without `unrelated` and what is below these.
pub(crate) fn descendants(root: Pid, unrelated: &HashSet<i32>) -> Vec<ProcessEntry> {
    below(root.as_raw_pid(), &snapshot(), unrelated)
}

/// The direct children of `root`, zombies included.
pub(crate) fn children(root: Pid) -> HashSet<i32> {
    let root = root.as_raw_pid();
    snapshot()
        .iter()
        .filter(|entry| entry.parent == root)
        .map(|entry| entry.pid)
        .collect()
}

/// Sends a signal to each; one that has just ended is no error.
pub(crate) fn signal_all(processes: impl IntoIterator<Item = ProcessEntry>, signal: Signal) {
    for ProcessEntry { pid, .. } in processes {
        let Some(process) = Pid::from_raw(pid) else {
            continue;
        };
        if let Err(error) = kill_process(process, signal) {
            tracing::debug!(pid, %error, "cannot signal a process of the job");
        }
    }
}

fn below(root: i32, entries: &[ProcessEntry], unrelated: &HashSet<i32>) -> Vec<ProcessEntry> {
    let mut by_parent: HashMap<i32, Vec<ProcessEntry>> = HashMap::new();
    for entry in entries {
        by_parent.entry(entry.parent).or_default().push(*entry);
    }
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(parent) = open.pop() {
        for child in by_parent.remove(&parent).unwrap_or_default() {
            if unrelated.contains(&child.pid) {
                continue;
            }
            open.push(child.pid);
            if !child.is_zombie {
                found.push(child);
            }
        }
    }
    found
}

fn snapshot() -> Vec<ProcessEntry> {
    let Ok(directory) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers =
        directory.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter_map(|pid| parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// `pid (name) state parent ...`; the name may hold anything, even blanks and brackets.
fn parse(pid: i32, stat: &[u8]) -> Option<ProcessEntry> {
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(ProcessEntry {
        pid,
        group,
        parent,
        is_zombie,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_with_brackets_and_blanks() {
        let entry = parse(7, b"7 (a) S 1 (b) R 42 8 7 0").unwrap();
        assert_eq!(
            entry,
            ProcessEntry {
                pid: 7,
                group: 8,
                parent: 42,
                is_zombie: false
            }
        );
        assert!(parse(7, b"7 (a) Z 42 7").unwrap().is_zombie);
        assert_eq!(parse(7, b""), None);
    }

    #[test]
    fn finds_the_living_below_a_process_but_no_strangers() {
        let entry = |pid, parent| ProcessEntry {
            pid,
            group: 1,
            parent,
            is_zombie: pid == 3,
        };
        let entries = [
            entry(2, 1),
            entry(3, 2),
            entry(4, 3),
            entry(5, 1),
            entry(6, 5),
            entry(9, 8),
        ];
        let found = below(1, &entries, &HashSet::from([5]));
        let mut found: Vec<i32> = found.iter().map(|entry| entry.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 4]);
    }
}
