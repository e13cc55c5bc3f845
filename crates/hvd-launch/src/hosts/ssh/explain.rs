//! From ssh's refusal to what a person does about it: [`explain`] names the cause and the command
//! that mends it, with the user's own host, port and key in it. It only writes sentences; causes
//! are found in `recognise.rs`, and nothing is tried or run.

mod login;
mod network;
mod there;

pub(crate) use there::install;

use super::{
    command::{SshOptions, by_hand, host_key_options},
    own_files::OwnFiles,
    quote::quote,
    recognise::{SshFailure, between, recognise, said},
};

/// Where ssh's server listens unless told otherwise.
const SSH_PORT: u16 = 22;

/// How many of the last lines of an unknown refusal are quoted.
const QUOTED_LINES: usize = 3;

/// Why no agent answers from a host, for a program and for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// The cause, to decide by.
    pub cause: SshFailure,
    /// What happened, naming the host; lower case, no full stop.
    pub what: String,
    /// What to do about it, with the command to type.
    pub remedy: String,
}

/// Explains why ssh to `host` did not bring an agent.
///
/// `exit` is ssh's exit status; nothing if it could not be started (then `stderr` holds the
/// system's answer) or was ended by a signal. `stderr` is all it said there, and `stdout_noise`
/// what came on standard output before, or instead of, the agent's first line. `own` is what
/// [`own_files`](super::own_files) has found for the remedy.
pub(crate) fn explain(
    host: &str,
    options: &SshOptions,
    exit: Option<i32>,
    stderr: &str,
    stdout_noise: &str,
    own: &OwnFiles,
) -> Explanation {
    let cause = recognise(exit, stderr, stdout_noise);
    let facts = Facts {
        host,
        options,
        exit,
        stderr,
        stdout: stdout_noise,
        own,
    };
    let (what, remedy) = network::explain(cause, &facts)
        .or_else(|| login::explain(cause, &facts))
        .or_else(|| there::explain(cause, &facts))
        .unwrap_or_else(|| unknown(&facts));
    Explanation {
        cause,
        what,
        remedy,
    }
}

/// What is known of the attempt.
struct Facts<'a> {
    host: &'a str,
    options: &'a SshOptions,
    exit: Option<i32>,
    stderr: &'a str,
    stdout: &'a str,
    own: &'a OwnFiles,
}

impl Facts<'_> {
    /// The host without its user.
    fn name(&self) -> &str {
        self.host
            .rsplit_once('@')
            .map_or(self.host, |(_, name)| name)
    }

    /// The port: as ssh says, who knows the user's configuration, else as given.
    fn port(&self) -> u16 {
        let said = self.stderr.lines().find_map(|line| {
            let (_, rest) = line.split_once(" port ")?;
            let end = rest.find(|character: char| !character.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())].parse().ok()
        });
        // 65535 is what ssh says when it talks through a proxy and knows no port.
        let said = said.filter(|port| *port != u16::MAX);
        said.or(self.options.port).unwrap_or(SSH_PORT)
    }

    /// The user whose login was refused, as ssh says, else as given.
    fn user(&self) -> Option<&str> {
        let said = self.line_with(": Permission denied (").split_once('@');
        let given = self.host.rsplit_once('@');
        said.or(given).map(|(user, _)| user)
    }

    /// `user@name` if the user is known.
    fn account(&self) -> String {
        match self.user() {
            Some(user) => format!("{user}@{}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// The line that puts the user's public key on the host.
    fn copy_key(&self) -> String {
        let mut words = vec!["ssh-copy-id".to_owned()];
        words.extend(host_key_options(self.options));
        if self.port() != SSH_PORT {
            words.extend(["-p".to_owned(), self.port().to_string()]);
        }
        if let Some(identity) = &self.options.identity {
            words.extend(["-i".to_owned(), quote(&identity.to_string_lossy())]);
        }
        words.push(quote(&self.account()));
        words.join(" ")
    }

    /// A command line that runs `words` on the host.
    fn on_host(&self, words: &str) -> String {
        format!("{} {words}", by_hand(self.options, self.host))
    }

    /// How to install this Horovod there, into a Python of the host's.
    fn install(&self, python: &str) -> String {
        let by_hand = by_hand(self.options, self.host);
        install(Some(&by_hand), self.own.wheel.as_deref(), python)
    }

    /// The first line with these words on standard error, or nothing.
    fn line_with(&self, words: &str) -> &str {
        let mut lines = self.stderr.lines();
        lines
            .find(|line| line.contains(words))
            .map_or("", str::trim)
    }

    /// The last line that says something, in backticks.
    fn last_line(&self) -> String {
        let lines = said(self.stderr);
        lines
            .last()
            .map_or_else(|| "nothing".to_owned(), |line| format!("`{line}`"))
    }
}

fn unknown(facts: &Facts<'_>) -> (String, String) {
    let mut lines = said(facts.stderr);
    lines.extend(said(facts.stdout));
    let quoted = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("` `");
    let ended = match facts.exit {
        Some(status) => format!("ssh ended with status {status}"),
        None => "ssh was ended".to_owned(),
    };
    let words = if quoted.is_empty() {
        "without a word".to_owned()
    } else {
        format!("after saying `{quoted}`")
    };
    (
        format!("no agent on host `{}`: {ended} {words}", facts.host),
        format!(
            "try by hand until it works without a question: `{}`",
            facts.on_host("true")
        ),
    )
}

#[cfg(test)]
mod tests;
