//! Sentences for what is wrong on the host itself, after the login.

use std::path::Path;

use super::{Facts, SshFailure, quote};
use crate::hosts::ssh::{AGENT_MISSING, run_there, said};

/// What has to be installed on every host: the same as here.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How to install this Horovod on another host: by sending the wheel that it was installed from here,
/// because no index need have it, and a host need not reach one. `by_hand` is how to get there by ssh.
pub(crate) fn install(by_hand: Option<&str>, wheel: Option<&str>, python: &str) -> String {
    let name = wheel.and_then(|wheel| Path::new(wheel).file_name());
    let (Some(by_hand), Some(wheel), Some(name)) = (by_hand, wheel, name) else {
        return format!(
            "install there the wheel that this host has it from, with `{} -m pip install FILE.whl` \
             (in a checkout, `make wheel` makes it)",
            quote(python)
        );
    };
    // Into the home directory: a name in /tmp that others can guess is theirs to take. The Python of
    // a distribution takes packages only if it is told so.
    let name = quote(&name.to_string_lossy());
    let line = format!(
        "cat > {name} && env PIP_BREAK_SYSTEM_PACKAGES=1 {} -m pip install ./{name}",
        quote(python)
    );
    format!(
        "send it the wheel that this host has it from: `{} < {}`",
        run_there(by_hand, &line),
        quote(wheel)
    )
}

/// What and remedy, if it is such a cause.
pub(super) fn explain(cause: SshFailure, facts: &Facts<'_>) -> Option<(String, String)> {
    let texts = match cause {
        SshFailure::AgentMissing => agent_missing(facts),
        SshFailure::NoHorovod => no_horovod(facts),
        SshFailure::CommandNotFound => command_not_found(facts),
        SshFailure::DiskFull => disk_full(facts),
        SshFailure::ForcedCommand => forced_command(facts),
        _ => return None,
    };
    Some(texts)
}

fn agent_missing(facts: &Facts<'_>) -> (String, String) {
    let line = facts.line_with(AGENT_MISSING).split_once(AGENT_MISSING);
    let interpreter = line.map_or("", |(_, interpreter)| interpreter.trim());
    let neither = if interpreter.is_empty() {
        "no `horovodrun` on its PATH".to_owned()
    } else {
        format!("neither `{interpreter}` nor `horovodrun` on its PATH")
    };
    (
        format!("host `{}` has {neither}", facts.host),
        format!(
            "{}; in containers, run the same image",
            facts.install("python3")
        ),
    )
}

/// Python begins the line with its own path.
fn no_horovod(facts: &Facts<'_>) -> (String, String) {
    let line = facts.line_with("No module named");
    let python = line.split_once(": ").map(|(path, _)| path);
    let python = python
        .filter(|path| path.starts_with('/'))
        .unwrap_or("python3");
    let host = facts.host;
    // With the package but without its agent, only the dotted name is missing.
    let is_older = !line.contains("No module named 'horovod'");
    let what = if is_older {
        format!("the horovod of `{python}` on host `{host}` is older than this one, {VERSION}")
    } else {
        format!("`{python}` on host `{host}` has no horovod")
    };
    (what, facts.install(python))
}

fn command_not_found(facts: &Facts<'_>) -> (String, String) {
    (
        format!(
            "host `{}` cannot start an agent: {}",
            facts.host,
            facts.last_line()
        ),
        format!(
            "`/bin/sh` and horovod must be there: {}",
            facts.install("python3")
        ),
    )
}

fn disk_full(facts: &Facts<'_>) -> (String, String) {
    (
        format!("host `{}` has no space left on a disk", facts.host),
        format!(
            "free some; `{}` shows which is full",
            // All of them: only the host knows its TMPDIR, and csh has no word for a variable that
            // may be unset.
            facts.on_host("df -h")
        ),
    )
}

fn forced_command(facts: &Facts<'_>) -> (String, String) {
    let status = facts
        .exit
        .map_or_else(String::new, |status| format!(" with status {status}"));
    let lines = said(facts.stdout);
    let words = match lines.last() {
        Some(line) => format!("after saying `{line}`"),
        None => "without a word".to_owned(),
    };
    (
        format!(
            "host `{}` ran something else than the agent: it ended{status} {words}",
            facts.host
        ),
        format!(
            "look there for `command=` before your key in ~/.ssh/authorized_keys, `ForceCommand` \
             in sshd_config, a login shell like /bin/false, or `exit` in a shell's start-up file; \
             `{}` must print `ready`",
            facts.on_host("echo ready")
        ),
    )
}
