//! Which host a process is on, so that no two hosts have the same answer.

use std::fs;

/// Equal for two processes only if they can share memory and reach each other's unix sockets: same
/// boot of the same kernel, same name, same network namespace. None where `/proc` does not tell.
pub fn host_identity() -> Option<String> {
    let read = |path: &str| {
        let text = fs::read_to_string(path).ok()?;
        Some(text.trim().to_owned())
    };
    let boot = read("/proc/sys/kernel/random/boot_id")?;
    let name = read("/proc/sys/kernel/hostname")?;
    let network = fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{boot} {name} {}", network.display()))
}
