//! Sentences for what is wrong on the host itself, after the login.

use super::{Cause, Facts, quote};
use crate::remote::ssh::{AGENT_MISSING, recognise::said};

/// What has to be installed on every host: the same as here.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What and remedy, if it is such a cause.
pub(super) fn explain(cause: Cause, facts: &Facts<'_>) -> Option<(String, String)> {
    let texts = match cause {
        Cause::AgentMissing => agent_missing(facts),
        Cause::NoHorovod => no_horovod(facts),
        Cause::CommandNotFound => command_not_found(facts),
        Cause::DiskFull => disk_full(facts),
        Cause::ForcedCommand => forced_command(facts),
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
            "install it there, best at the same place as here: `{}`; in containers, run the same \
             image",
            facts.on_host(&format!("python3 -m pip install horovod=={VERSION}"))
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
    let install = format!("{} -m pip install horovod=={VERSION}", quote(python));
    (what, format!("`{}`", facts.on_host(&install)))
}

fn command_not_found(facts: &Facts<'_>) -> (String, String) {
    (
        format!(
            "host `{}` cannot start an agent: {}",
            facts.host,
            facts.last_words()
        ),
        format!(
            "`/bin/sh` and horovod must be there: `{}`",
            facts.on_host(&format!("python3 -m pip install horovod=={VERSION}"))
        ),
    )
}

fn disk_full(facts: &Facts<'_>) -> (String, String) {
    (
        format!("host `{}` has no space left on a disk", facts.host),
        format!(
            "free some; `{}` shows which is full",
            facts.on_host("df -h /tmp . /dev/shm")
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
