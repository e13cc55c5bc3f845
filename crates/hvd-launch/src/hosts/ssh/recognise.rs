//! What ssh and the far side said, sorted into causes. The words are those of OpenSSH 8 to 10 in
//! the C locale; 10 leaves out some that 9 still has, so a cause rests on the words all share.
//! Remedies are not found here.

use super::command::AGENT_MISSING;

/// ssh ends with this status when it is ssh that failed, not what it ran.
const SSH_ITSELF: i32 = 255;

/// Why no agent answers from a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum SshFailure {
    /// There is no ssh client on this machine.
    ClientMissing,
    /// The user that runs ssh has no account on this machine.
    NoAccountHere,
    /// ssh does not accept its own configuration.
    Configuration,
    /// The host's name does not resolve.
    NameUnknown,
    /// Nothing listens at the port.
    Refused,
    /// Nothing answers at all.
    TimedOut,
    /// Something accepts the connection and stays silent.
    Silent,
    /// There is no route to the host.
    Unreachable,
    /// The connection was closed before the login; the one cause where trying again may help.
    ClosedEarly,
    /// What listens is not an ssh server.
    NotSsh,
    /// Client and server share no algorithm.
    NoCommonAlgorithm,
    /// The host's key is not known, and only known ones are believed.
    HostKeyUnknown,
    /// The host's key is not the one it had.
    HostKeyChanged,
    /// Others may read the private key.
    KeyPermissions,
    /// The private key cannot be read.
    IdentityMissing,
    /// More keys were offered than the server tries.
    TooManyKeys,
    /// The server takes none of the keys, and nothing but keys.
    KeyRefused,
    /// The server takes none of the keys, and would take a password.
    PasswordWanted,
    /// The account may not log in.
    AccountClosed,
    /// The image lets another user in, and says which.
    OtherUser,
    /// The server allows no session.
    NoSession,
    /// The connection broke.
    Lost,
    /// There is neither the interpreter nor `horovodrun`.
    AgentMissing,
    /// The interpreter has no horovod, or one without agents.
    NoHorovod,
    /// Something that is needed there is not found or may not be executed.
    CommandNotFound,
    /// A disk is full.
    DiskFull,
    /// The server or the login shell ran something else.
    ForcedCommand,
    /// None of these.
    Unknown,
}

/// What ssh says of a user without an account; the number follows.
pub(super) const NO_USER: &str = "No user exists for uid ";

/// A cause and what must all be said for it.
type Sign = (SshFailure, &'static [&'static str]);

/// Words of ssh itself. The order matters: a changed key ends in the words of an unknown one, and
/// an unusable private key in those of a refused one.
const OF_SSH: &[Sign] = &[
    (SshFailure::NoAccountHere, &[NO_USER]),
    (SshFailure::Configuration, &["Bad configuration option"]),
    (SshFailure::Configuration, &["Bad owner or permissions on"]),
    (SshFailure::NameUnknown, &["Could not resolve hostname"]),
    (
        SshFailure::Refused,
        &["connect to host", "Connection refused"],
    ),
    (SshFailure::TimedOut, &["connect to host", "timed out"]),
    (SshFailure::Silent, &["timed out during banner exchange"]),
    (
        SshFailure::Unreachable,
        &["connect to host", "No route to host"],
    ),
    (
        SshFailure::Unreachable,
        &["connect to host", "is unreachable"],
    ),
    (
        SshFailure::Unreachable,
        &["connect to host", "Permission denied"],
    ),
    (
        SshFailure::NotSsh,
        &["banner line contains invalid characters"],
    ),
    (SshFailure::NotSsh, &["banner exchange", "invalid format"]),
    (SshFailure::NotSsh, &["No SSH version received"]),
    (SshFailure::NoCommonAlgorithm, &["Unable to negotiate with"]),
    (
        SshFailure::HostKeyChanged,
        &["IDENTIFICATION HAS CHANGED", "Host key verification failed"],
    ),
    (
        SshFailure::HostKeyUnknown,
        &["Host key verification failed"],
    ),
    (
        SshFailure::TooManyKeys,
        &["Too many authentication failures"],
    ),
    (
        SshFailure::KeyPermissions,
        &["UNPROTECTED PRIVATE KEY FILE", "Permission denied ("],
    ),
    (
        SshFailure::IdentityMissing,
        &["Identity file", "not accessible", "Permission denied ("],
    ),
    (SshFailure::AccountClosed, &["account has expired"]),
    (SshFailure::NoSession, &["open failed"]),
    (SshFailure::Lost, &["not responding"]),
    (
        SshFailure::Lost,
        &["closed by remote host.", "Connection to"],
    ),
    (SshFailure::Lost, &["client_loop: send disconnect"]),
    (SshFailure::ClosedEarly, &["exchange_identification"]),
    (SshFailure::ClosedEarly, &["Connection closed by"]),
    (SshFailure::ClosedEarly, &["Connection reset by"]),
];

/// Words of what ran on the host, on either of its streams.
const OF_HOST: &[Sign] = &[
    (SshFailure::AgentMissing, &[AGENT_MISSING]),
    (SshFailure::NoHorovod, &["No module named", "horovod"]),
    (SshFailure::DiskFull, &["No space left on device"]),
    (SshFailure::DiskFull, &["Disk quota exceeded"]),
    (
        SshFailure::AccountClosed,
        &["account is currently not available"],
    ),
    (SshFailure::AccountClosed, &["account has expired"]),
    (SshFailure::OtherUser, &["Please login as the user"]),
];

/// Finds the cause. `exit` is nothing when ssh could not be started or was ended by a signal.
pub(crate) fn recognise(exit: Option<i32>, stderr: &str, stdout: &str) -> SshFailure {
    if exit.is_none() && stderr.contains("(os error 2)") {
        return SshFailure::ClientMissing;
    }
    let found = |signs: &[Sign], text: &str| {
        let is_said = |(_, words): &&Sign| words.iter().all(|word| text.contains(word));
        signs.iter().find(is_said).map(|(cause, _)| *cause)
    };
    if let Some(cause) = found(OF_HOST, stderr).or_else(|| found(OF_HOST, stdout)) {
        return cause;
    }
    if exit.is_none_or(|status| status == SSH_ITSELF) {
        return found(OF_SSH, stderr)
            .or_else(|| refused_key(stderr))
            .unwrap_or(SshFailure::Unknown);
    }
    match exit {
        Some(126 | 127) => SshFailure::CommandNotFound,
        Some(0) => SshFailure::ForcedCommand,
        Some(_) if said(stderr).is_empty() => SshFailure::ForcedCommand,
        _ => SshFailure::Unknown,
    }
}

fn refused_key(stderr: &str) -> Option<SshFailure> {
    let methods = between(stderr, "Permission denied (", ")")?;
    let asks = methods.contains("password") || methods.contains("keyboard-interactive");
    Some(if asks {
        SshFailure::PasswordWanted
    } else {
        SshFailure::KeyRefused
    })
}

/// The lines that say something, fit to be shown: no frames, no blank lines, no notes of ssh that
/// come with success as well, nothing that moves a terminal's cursor.
pub(crate) fn said(text: &str) -> Vec<String> {
    let is_note = |line: &str| {
        line.starts_with("Warning: Permanently added")
            || line.starts_with("Failed to add the host")
            || line.starts_with("Could not chdir to home directory")
            || line.starts_with("** ")
            || line.bytes().all(|byte| byte == b'@')
    };
    let shown = |line: &str| {
        let visible = |character: char| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        };
        line.chars()
            .map(visible)
            .collect::<String>()
            .trim()
            .to_owned()
    };
    text.lines()
        .map(shown)
        .filter(|line| !is_note(line))
        .collect()
}

/// What stands between two texts, first occurrence, on one line.
pub(super) fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    let line = rest.lines().next()?;
    line.split_once(after).map(|(found, _)| found)
}
