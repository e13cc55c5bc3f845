//! Sentences for keys, host keys and accounts: the connection was there, the login was not.

use super::{Facts, SSH_PORT, SshFailure, between, quote};
use crate::hosts::ssh::HostKeys;

/// Said where ssh has a file for host keys and none of them can be written.
const NOT_WRITABLE: &str = "none of ssh's files of known hosts can be written here";

/// What and remedy, if it is such a cause.
pub(super) fn explain(cause: SshFailure, facts: &Facts<'_>) -> Option<(String, String)> {
    let texts = match cause {
        SshFailure::HostKeyUnknown => host_key_unknown(facts),
        SshFailure::HostKeyChanged => host_key_changed(facts),
        SshFailure::KeyPermissions => key_permissions(facts),
        SshFailure::IdentityMissing => identity_missing(facts),
        SshFailure::TooManyKeys => too_many_keys(facts),
        SshFailure::KeyRefused => key_refused(facts),
        SshFailure::PasswordWanted => password_wanted(facts),
        SshFailure::AccountClosed => account_closed(facts),
        SshFailure::OtherUser => other_user(facts),
        SshFailure::NoSession => no_session(facts),
        _ => return None,
    };
    Some(texts)
}

fn host_key_unknown(facts: &Facts<'_>) -> (String, String) {
    let looser = match facts.options.host_keys {
        HostKeys::Strict => "; or leave out --ssh-strict: new hosts are then believed",
        HostKeys::AcceptNew | HostKeys::Unchecked => "",
    };
    let add = match learn(facts) {
        Some(line) => format!("`{line}` adds it"),
        None => format!("{NOT_WRITABLE}: add it where they come from"),
    };
    (
        format!(
            "the key of host `{}` is not among the known ones",
            facts.host
        ),
        format!(
            "{add}; compare the fingerprint with `ssh-keygen -lf \
             /etc/ssh/ssh_host_ed25519_key.pub` there{looser}"
        ),
    )
}

/// The line that adds the host's key, in the first of its files that can be written; none if
/// there is no such file. Which these are, ssh knows: `~/.ssh` may be mounted read-only.
fn learn(facts: &Facts<'_>) -> Option<String> {
    let (name, port, file) = match &facts.own.known_hosts {
        Some(known) => (
            known.name.as_str(),
            known.port,
            quote(known.writable.first()?),
        ),
        None => (facts.name(), facts.port(), "~/.ssh/known_hosts".to_owned()),
    };
    let at = if port == SSH_PORT {
        String::new()
    } else {
        format!("-p {port} ")
    };
    Some(format!("ssh-keyscan {at}{} >> {file}", quote(name)))
}

/// ssh names the file and the entry itself, which may be another file than the user's own. Where it
/// cannot be written, the new key beside the old one does as well: ssh takes either.
fn host_key_changed(facts: &Facts<'_>) -> (String, String) {
    let mut said = facts.stderr.lines().map(str::trim);
    let said = said.find(|line| line.starts_with("ssh-keygen ") && line.contains(" -R "));
    let entry = match facts.port() {
        SSH_PORT => facts.name().to_owned(),
        port => format!("[{}]:{port}", facts.name()),
    };
    let composed = format!("ssh-keygen -R {}", quote(&entry));
    let remove = said.map_or(composed, str::to_owned);
    let can_forget = match (&facts.own.known_hosts, between(&remove, "-f \"", "\"")) {
        (Some(known), Some(file)) => known.writable.iter().any(|writable| writable == file),
        _ => true,
    };
    let mend = match learn(facts) {
        _ if can_forget => format!("forget the old key: `{remove}`"),
        Some(line) => format!("add the new key (the file with the old one is read-only): `{line}`"),
        None => format!("remove the old key ({NOT_WRITABLE})"),
    };
    (
        format!(
            "host `{}` has another key than last time: it was set up anew, or something else \
             answers in its place",
            facts.host
        ),
        format!("if you know why, {mend}; for containers that come and go, --no-host-key-check"),
    )
}

fn key_permissions(facts: &Facts<'_>) -> (String, String) {
    let mode = between(facts.stderr, "Permissions ", " for").unwrap_or("too open");
    let file = between(facts.line_with("are too open"), " for '", "'").unwrap_or("KEY");
    (
        format!(
            "ssh does not use the private key `{file}` for host `{}`: others may read it \
             (permissions {mode})",
            facts.host
        ),
        format!(
            "`chmod 600 {}`; if it is mounted read-only, where it comes from",
            quote(file)
        ),
    )
}

fn identity_missing(facts: &Facts<'_>) -> (String, String) {
    let file = between(facts.stderr, "Identity file ", " not accessible").unwrap_or_default();
    let reason = facts
        .line_with("not accessible: ")
        .split_once("not accessible: ");
    let reason = reason.map_or("", |(_, reason)| reason.trim_end_matches('.'));
    let file = quote(file);
    (
        format!(
            "the private key `{file}` for host `{}` cannot be read: {reason}",
            facts.host
        ),
        format!(
            "name the right file with `-i`, or make one and take it there: `ssh-keygen -t ed25519 \
             -N '' -f {file}`, `{}`",
            facts.copy_key()
        ),
    )
}

fn too_many_keys(facts: &Facts<'_>) -> (String, String) {
    (
        format!(
            "host `{}` gave up: more keys were offered than it tries (your ssh agent offers all \
             it has)",
            facts.host
        ),
        format!(
            "offer the right one only: in ~/.ssh/config, for host {}, `IdentityFile` with \
             `IdentitiesOnly yes`; or empty the agent, `ssh-add -D`",
            facts.name()
        ),
    )
}

fn refuser(facts: &Facts<'_>) -> String {
    match facts.user() {
        Some(user) => format!("user `{user}`"),
        None => "your user".to_owned(),
    }
}

fn key_refused(facts: &Facts<'_>) -> (String, String) {
    (
        format!(
            "host `{}` takes none of your keys for {} (permission denied)",
            facts.host,
            refuser(facts)
        ),
        format!(
            "add your public key to ~/.ssh/authorized_keys there{}, from where you may log in \
             `{}`; is the user right (`-H user@{}:SLOTS`), does the file belong to it with mode \
             600, and is a key with a passphrase in your agent (`ssh-add`)?{}",
            on_the_spot(facts),
            facts.copy_key(),
            facts.name(),
            locked(facts) + &other_port(facts)
        ),
    )
}

/// For who sits at the host, as its administrator, or in the container.
fn on_the_spot(facts: &Facts<'_>) -> String {
    let key = facts.own.public_key.as_deref();
    key.map_or_else(String::new, |key| {
        format!(", as that user `mkdir -p -m 700 ~/.ssh && echo '{key}' >> ~/.ssh/authorized_keys`")
    })
}

/// A server does not say to its clients that it takes an account as locked. Root's never is.
fn locked(facts: &Facts<'_>) -> String {
    match facts.user() {
        Some(user) if user != "root" => format!(
            " An sshd without PAM, as in containers, takes an account that `useradd` has made for \
             locked: `usermod -p '*' {}` there opens it for keys alone",
            quote(user)
        ),
        _ => String::new(),
    }
}

fn password_wanted(facts: &Facts<'_>) -> (String, String) {
    (
        format!(
            "host `{}` would ask {} for a password: it takes none of your keys, and a job cannot \
             answer",
            facts.host,
            refuser(facts)
        ),
        format!(
            "`{}` asks for it once and leaves your key there (no key yet: `ssh-keygen -t \
             ed25519 -N '' -f ~/.ssh/id_ed25519`; a key with a passphrase: `ssh-add`){}",
            facts.copy_key(),
            other_port(facts)
        ),
    )
}

/// The machine's own server answers at the usual port, also where a container's was meant.
fn other_port(facts: &Facts<'_>) -> String {
    if facts.options.port.is_some() {
        return String::new();
    }
    format!(
        "; if not this ssh server was meant, which listens at port {}, but that of a container \
         there, name its port, e.g. `-p 12345`",
        facts.port()
    )
}

fn account_closed(facts: &Facts<'_>) -> (String, String) {
    let user = facts.user().unwrap_or("USER");
    let (reason, mend) = if facts.stderr.contains("account has expired") {
        ("the account has expired", format!("`chage -E -1 {user}`"))
    } else {
        (
            "the account has no login shell",
            format!("`usermod -s /bin/bash {user}`"),
        )
    };
    (
        format!(
            "host `{}` does not accept a login as {}: {reason}",
            facts.host,
            refuser(facts)
        ),
        format!(
            "take another user, `-H user@{}:SLOTS`, or open this one there: {mend}",
            facts.name()
        ),
    )
}

fn other_user(facts: &Facts<'_>) -> (String, String) {
    let text = [facts.stdout, facts.stderr].concat();
    let user = between(&text, "login as the user \"", "\"")
        .unwrap_or("USER")
        .to_owned();
    (
        format!("host `{}` lets another user in: `{user}`", facts.host),
        format!(
            "write `-H {user}@{}:SLOTS`, or set `User {user}` in ~/.ssh/config",
            facts.name()
        ),
    )
}

fn no_session(facts: &Facts<'_>) -> (String, String) {
    (
        format!(
            "sshd on host `{}` lets you in but opens no session",
            facts.host
        ),
        "in its sshd_config `MaxSessions` must be at least 1; if you share connections \
         (`ControlMaster`), it must be higher"
            .to_owned(),
    )
}
