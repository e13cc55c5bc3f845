//! The command that starts an agent on another host: one ssh, or Kubeflow's stand-in for it, with
//! one line for whatever login shell is there. Nothing secret is in it: command lines are public.
//! It only composes words; it starts nothing and reads no environment.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::quote::quote;

/// The first word of the only line printed on standard error, with exit status 127, when a host
/// has neither the interpreter nor `horovodrun`; the interpreter follows it.
pub(crate) const AGENT_MISSING: &str = "horovod-agent-missing:";

/// Kubeflow's command in place of ssh, as the value of `OMPI_MCA_plm_rsh_agent`.
pub(crate) const KUBEXEC: &str = "/etc/mpi/kubexec.sh";

/// A connection that answers nothing for this many intervals is given up by ssh itself.
const ALIVE_COUNT: u32 = 3;

/// Seconds between ssh's own questions whether the other side is there. The agent's heartbeats are
/// faster; this ends an ssh whose agent has gone on without it.
const ALIVE_SECONDS: u32 = 5;

/// Settings that make ssh believe any host.
const UNCHECKED: &[&str] = &[
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "GlobalKnownHostsFile=/dev/null",
];

/// The least that ssh may take for one of several addresses.
const LEAST_CONNECT: Duration = Duration::from_secs(3);

/// What is done about the keys hosts identify themselves with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostKeys {
    /// A host never seen is believed and remembered; one whose key changed is refused.
    #[default]
    AcceptNew,
    /// Only hosts in the user's known hosts (`--ssh-strict`).
    Strict,
    /// Any key is believed and none remembered (`--no-host-key-check`).
    Unchecked,
}

/// What the user said about ssh; where it is silent, ssh's own configuration decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshOptions {
    /// The port, `-p`.
    pub port: Option<u16>,
    /// The private key, `-i`.
    pub identity: Option<PathBuf>,
    /// How hosts are identified.
    pub host_keys: HostKeys,
    /// How long ssh may take to connect, with all addresses of a host; whole seconds, at least one.
    pub connect_timeout: Duration,
}

impl SshOptions {
    /// The same for a host of so many addresses, which ssh tries one after the other.
    pub(crate) fn for_addresses(&self, number: usize) -> Self {
        let number = u32::try_from(number.max(1)).unwrap_or(u32::MAX);
        let each = (self.connect_timeout / number).max(LEAST_CONNECT.min(self.connect_timeout));
        Self {
            connect_timeout: each,
            ..self.clone()
        }
    }
}

/// Program and arguments that start an agent on `host` through ssh.
///
/// `host` is `name`, `user@name` or an IPv6 address, with brackets or without; `interpreter` is the
/// Python that runs here, tried first there. The user's ssh configuration holds except where it
/// would ask a question, take a terminal, silence the reasons, or run something else.
pub(crate) fn command(options: &SshOptions, host: &str, interpreter: &str) -> Vec<OsString> {
    command_for(options, host, &shell_line(interpreter))
}

/// Program and arguments that run a line of shell on `host` through ssh, which asks no question.
pub(crate) fn command_for(options: &SshOptions, host: &str, line: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["ssh".into(), "-T".into(), "-x".into()];
    for option in settings(options) {
        words.extend(["-o".into(), option.into()]);
    }
    words.extend(port_and_identity(options));
    // Behind `--` nothing is an option, neither the host nor the line.
    words.extend(["--".into(), without_brackets(host).into()]);
    words.push(line.into());
    words
}

/// As [`command`], or through Kubeflow's command where `rsh_agent`, the value of
/// `OMPI_MCA_plm_rsh_agent`, is exactly [`KUBEXEC`]. Pods have names only: no users, no ports, no
/// keys.
pub(crate) fn command_through(
    rsh_agent: Option<&str>,
    options: &SshOptions,
    host: &str,
    interpreter: &str,
) -> Vec<OsString> {
    if rsh_agent != Some(KUBEXEC) {
        return command(options, host, interpreter);
    }
    let pod = host.rsplit_once('@').map_or(host, |(_, pod)| pod);
    vec![KUBEXEC.into(), pod.into(), shell_line(interpreter).into()]
}

/// Program and arguments that print what ssh makes of these options and the user's configuration.
pub(crate) fn describe(options: &SshOptions, host: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["ssh".into(), "-G".into()];
    words.extend(port_and_identity(options));
    words.extend(["--".into(), without_brackets(host).into()]);
    words
}

/// The command line a person types to see what ssh says: the same host, port and key, with
/// questions allowed.
pub(crate) fn by_hand(options: &SshOptions, host: &str) -> String {
    let mut words = vec!["ssh".to_owned()];
    words.extend(host_key_options(options));
    for word in port_and_identity(options) {
        words.push(quote(&word.to_string_lossy()));
    }
    words.push(quote(&without_brackets(host)));
    words.join(" ")
}

/// What a person types for `--no-host-key-check`; else ssh decides, and may ask.
pub(super) fn host_key_options(options: &SshOptions) -> Vec<String> {
    let settings = match options.host_keys {
        HostKeys::Unchecked => UNCHECKED,
        HostKeys::AcceptNew | HostKeys::Strict => &[],
    };
    let option = |setting: &&str| ["-o".to_owned(), (*setting).to_owned()];
    settings.iter().flat_map(option).collect()
}

/// The command line that runs a line of shell on another host; `by_hand` is what comes before it.
/// Two shells read the line, the one it is typed in and the one over there; only ssh starts the
/// latter by itself.
pub(crate) fn run_there(by_hand: &str, line: &str) -> String {
    let is_plain = |word: &str| word == quote(word);
    if line.split(' ').all(is_plain) {
        return format!("{by_hand} {line}");
    }
    if !by_hand.starts_with("ssh ") {
        return format!("{by_hand} sh -c {}", quote(line));
    }
    format!("{by_hand} {}", quote(line))
}

fn settings(options: &SshOptions) -> Vec<String> {
    let seconds = options.connect_timeout.as_secs().max(1);
    let mut settings = vec![
        "BatchMode=yes".to_owned(),
        format!("ConnectTimeout={seconds}"),
        format!("ServerAliveInterval={ALIVE_SECONDS}"),
        format!("ServerAliveCountMax={ALIVE_COUNT}"),
        // A user's `LogLevel QUIET` would hide why it failed, a `RemoteCommand` would collide with
        // ours, and forwarded ports of one ssh would be in the way of the next.
        "LogLevel=INFO".to_owned(),
        "RemoteCommand=none".to_owned(),
        "ClearAllForwardings=yes".to_owned(),
    ];
    let host_keys: &[&str] = match options.host_keys {
        HostKeys::AcceptNew => &["StrictHostKeyChecking=accept-new"],
        HostKeys::Strict => &["StrictHostKeyChecking=yes"],
        HostKeys::Unchecked => UNCHECKED,
    };
    settings.extend(host_keys.iter().map(|&setting| setting.to_owned()));
    settings
}

fn port_and_identity(options: &SshOptions) -> Vec<OsString> {
    let mut words = Vec::new();
    if let Some(port) = options.port {
        words.extend(["-p".into(), port.to_string().into()]);
    }
    if let Some(identity) = &options.identity {
        words.extend(["-i".into(), identity.into()]);
    }
    words
}

/// ssh takes the brackets of an IPv6 address for part of a name.
fn without_brackets(host: &str) -> String {
    host.replace(['[', ']'], "")
}

/// One line that every login shell hands to `/bin/sh` unchanged.
pub(crate) fn shell_line(interpreter: &str) -> String {
    format!("exec /bin/sh -c {}", quote(&script(interpreter)))
}

/// Finds an agent and becomes it. A login shell's profile is asked last, because it is slow, and
/// away from standard input, which carries the job.
pub(crate) fn script(interpreter: &str) -> String {
    // A path with a line feed cannot be said to every shell; it counts as not being there.
    let interpreter = if interpreter.contains(char::is_control) {
        ""
    } else {
        interpreter
    };
    let steps = [
        format!("p={}", quote(interpreter)),
        "[ -f \"$p\" ] && [ -x \"$p\" ] && exec \"$p\" -m horovod.runner.agent".to_owned(),
        "command -v horovodrun >/dev/null 2>&1 && exec horovodrun agent --stdio".to_owned(),
        "for s in bash zsh sh; do \
         h=$(\"$s\" -lc \"command -v horovodrun\" </dev/null 2>/dev/null | tail -n 1); \
         [ -f \"$h\" ] && [ -x \"$h\" ] && exec \"$h\" agent --stdio; done"
            .to_owned(),
        format!("echo \"{AGENT_MISSING} $p\" >&2"),
        "exit 127".to_owned(),
    ];
    steps.join("; ")
}

#[cfg(test)]
mod tests;
