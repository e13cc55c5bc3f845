//! Whether this process was started by a driver, as `/proc` shows it: for a rank whose environment
//! has been lost on the way.

use std::{ffi::CStr, fs};

use rustix::process::getppid;

/// What the driver of a job, or the agent of a host, is called.
pub(crate) const DRIVER: &CStr = c"hvd-driver";

/// More generations than any process has between itself and its driver.
const GENERATIONS: usize = 256;

/// The process of the driver or agent that this process descends from, if there is one and it can
/// be seen. A container with process numbers of its own hides it.
pub fn driver_above() -> Option<i32> {
    let mut process = getppid()?.as_raw_pid();
    for _ in 0..GENERATIONS {
        let status = fs::read(format!("/proc/{process}/stat")).ok()?;
        let (name, parent) = parse(&status)?;
        if name == DRIVER.to_bytes() {
            return Some(process);
        }
        process = parent;
    }
    None
}

/// A process's name and its parent. The name stands in parentheses, and may contain some.
fn parse(status: &[u8]) -> Option<(&[u8], i32)> {
    let begin = status.iter().position(|&byte| byte == b'(')? + 1;
    let end = status.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(status.get(end + 1..)?).ok()?;
    let parent = rest.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some((status.get(begin..end)?, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_are_read() {
        assert_eq!(
            parse(b"77 (a) b (c) S 12 77 77 0"),
            Some((&b"a) b (c"[..], 12))
        );
        for damaged in [&b""[..], b"77", b"7 (x", b"7 )x(", b"7 (x) S", b"7 (x) S y"] {
            assert_eq!(parse(damaged), None);
        }
    }

    #[test]
    fn a_test_has_no_driver() {
        assert_eq!(driver_above(), None);
    }
}
