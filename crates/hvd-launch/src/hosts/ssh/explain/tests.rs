//! Real refusals and what becomes of them. The texts were said by OpenSSH 9.2 and 10.0 clients to
//! throw-away servers, one for each case; where both agree, once. Names and ports are changed.

mod commands;

use std::time::Duration;

use super::*;
use crate::hosts::ssh::HostKeys;

const ADDED: &str =
    "Warning: Permanently added '[b]:12345' (ED25519) to the list of known hosts.\r\n";

const CHANGED: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n\
    @    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n\
    @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n\
    IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r\n\
    Offending ED25519 key in /etc/known:4\r\n  remove with:\r\n  \
    ssh-keygen -f \"/etc/known\" -R \"[b]:12345\"\r\n\
    Host key for [b]:12345 has changed and you have requested strict checking.\r\n\
    Host key verification failed.\r\n";

const OPEN_KEY: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n\
    @         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\r\n\
    @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n\
    Permissions 0644 for '/keys/k' are too open.\r\n\
    It is required that your private key files are NOT accessible by others.\r\n\
    This private key will be ignored.\r\nLoad key \"/keys/k\": bad permissions\r\n\
    root@b: Permission denied (publickey).\r\n";

/// Exit status, standard error, what came on standard output; the cause, and words of the answer.
type Case = (
    Option<i32>,
    &'static str,
    &'static str,
    SshFailure,
    &'static [&'static str],
);

const NETWORK: &[Case] = &[
    (
        None,
        "No such file or directory (os error 2)",
        "",
        SshFailure::ClientMissing,
        &[
            "this machine has no `ssh`",
            "apt-get install openssh-client",
        ],
    ),
    (
        Some(255),
        "ssh: Could not resolve hostname b: Name or service not known\r\n",
        "",
        SshFailure::NameUnknown,
        &[
            "the name `b` does not resolve: no such name",
            "`getent hosts b`",
        ],
    ),
    (
        Some(255),
        "ssh: Could not resolve hostname b: Temporary failure in name resolution\r\n",
        "",
        SshFailure::NameUnknown,
        &["the name server does not answer"],
    ),
    (
        Some(255),
        "ssh: Could not resolve hostname jump: Name or service not known\r\n\
      kex_exchange_identification: Connection closed by remote host\r\n\
      Connection closed by UNKNOWN port 65535\r\n",
        "",
        SshFailure::NameUnknown,
        &["the name `jump`, which ssh goes to for host `root@b`, does not"],
    ),
    (
        Some(255),
        "ssh: connect to host b port 12345: Connection refused\r\n",
        "",
        SshFailure::Refused,
        &[
            "nothing listens at port 12345 of host `root@b`",
            "`/usr/sbin/sshd -p 12345`",
        ],
    ),
    (
        Some(255),
        "ssh: connect to host 10.9.9.2 port 12345: Connection timed out\r\n",
        "",
        SshFailure::TimedOut,
        &["does not answer at port 12345", "`nc -vz b 12345`"],
    ),
    (
        Some(255),
        "ssh: connect to host b port 12345: Operation timed out\r\n",
        "",
        SshFailure::TimedOut,
        &["does not answer"],
    ),
    (
        Some(255),
        "Connection timed out during banner exchange\r\n\
      Connection to b port 12345 timed out\r\n",
        "",
        SshFailure::Silent,
        &[
            "takes connections but no ssh server answers",
            "`ssh -v -p 12345 root@b`",
        ],
    ),
    (
        Some(255),
        "ssh: connect to host 10.8.8.1 port 22: No route to host\r\n",
        "",
        SshFailure::Unreachable,
        &[
            "host `root@b` does not answer: it is off, or",
            "(no route to host)",
            "`ip route get 10.8.8.1`",
        ],
    ),
    (
        Some(255),
        "ssh: connect to host fd00::7 port 22: Network is unreachable\r\n",
        "",
        SshFailure::Unreachable,
        &["`ip route get fd00::7`"],
    ),
    (
        Some(255),
        "ssh: connect to host 10.7.7.1 port 22: Permission denied\r\n",
        "",
        SshFailure::Unreachable,
        &["a firewall of this machine"],
    ),
    (
        Some(255),
        "kex_exchange_identification: read: Connection reset by peer\r\n\
      Connection reset by 127.0.0.1 port 12345\r\n",
        "",
        SshFailure::ClosedEarly,
        &[
            "closed the connection at port 12345 before the login",
            "MaxStartups",
        ],
    ),
    (
        Some(255),
        "Connection closed by 127.0.0.1 port 12345\r\n",
        "",
        SshFailure::ClosedEarly,
        &["a service that is not ssh"],
    ),
    (
        Some(255),
        "kex_exchange_identification: banner line contains invalid characters\r\n\
      banner exchange: Connection to 127.0.0.1 port 8080: invalid format\r\n",
        "",
        SshFailure::NotSsh,
        &["what listens at port 8080", "with `-p`"],
    ),
    (
        Some(255),
        "banner exchange: Connection to 127.0.0.1 port 8080: invalid format\r\n",
        "",
        SshFailure::NotSsh,
        &["is not an ssh server"],
    ),
    (
        Some(255),
        "kex_exchange_identification: No SSH version received in first 1024 lines from \
      server\r\nbanner exchange: Connection to 127.0.0.1 port 8080: invalid format\r\n",
        "",
        SshFailure::NotSsh,
        &["is not an ssh server"],
    ),
    (
        Some(255),
        "Unable to negotiate with b port 22: no matching key exchange method found. Their \
      offer: diffie-hellman-group14-sha1\r\n",
        "",
        SshFailure::NoCommonAlgorithm,
        &[
            "no key exchange method in common",
            "offers `diffie-hellman-group14-sha1`",
        ],
    ),
    (
        Some(255),
        "Timeout, server b not responding.\r\n",
        "",
        SshFailure::Lost,
        &["broke: `Timeout, server b not responding.`"],
    ),
    (
        Some(255),
        "Connection to b closed by remote host.\r\n",
        "",
        SshFailure::Lost,
        &["uptime"],
    ),
    (
        Some(255),
        "/root/.ssh/config: line 2: Bad configuration option: hostky\r\n\
      /root/.ssh/config: terminating, 1 bad configuration options\r\n",
        "",
        SshFailure::Configuration,
        &["line 2: Bad configuration option: hostky"],
    ),
    (
        Some(255),
        "Bad owner or permissions on /root/.ssh/config\r\n",
        "",
        SshFailure::Configuration,
        &["`chmod 600 /root/.ssh/config`"],
    ),
];

const LOGIN: &[Case] = &[
    (
        Some(255),
        "No user exists for uid 1000\r\n",
        "",
        SshFailure::NoAccountHere,
        &[
            "for user 1000, who has no account on this machine",
            "`useradd --uid 1000 --create-home horovod`",
        ],
    ),
    (
        Some(255),
        "root@b: Permission denied (publickey).\r\n",
        "",
        SshFailure::KeyRefused,
        &[
            "takes none of your keys for user `root`",
            "`ssh-copy-id -p 12345 root@b`",
        ],
    ),
    (
        Some(255),
        "root@b: Permission denied (publickey,password,keyboard-interactive).\r\n",
        "",
        SshFailure::PasswordWanted,
        &[
            "would ask user `root` for a password",
            "`ssh-copy-id -p 12345 root@b`",
        ],
    ),
    (
        Some(255),
        "root@b: Permission denied (password).\r\n",
        "",
        SshFailure::PasswordWanted,
        &["a job cannot answer"],
    ),
    (
        Some(255),
        "No ED25519 host key is known for [b]:12345 and you have requested strict \
      checking.\r\nHost key verification failed.\r\n",
        "",
        SshFailure::HostKeyUnknown,
        &[
            "not among the known",
            "`ssh-keyscan -p 12345 b >> ~/.ssh/known_hosts`",
        ],
    ),
    (
        Some(255),
        CHANGED,
        "",
        SshFailure::HostKeyChanged,
        &[
            "another key than last time",
            "`ssh-keygen -f \"/etc/known\" -R \"[b]:12345\"`",
        ],
    ),
    (
        Some(255),
        "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.",
        "",
        SshFailure::HostKeyChanged,
        &["`ssh-keygen -R '[b]:12345'`"],
    ),
    (
        Some(255),
        OPEN_KEY,
        "",
        SshFailure::KeyPermissions,
        &["(permissions 0644)", "`chmod 600 /keys/k`"],
    ),
    (
        Some(255),
        "Warning: Identity file /keys/no not accessible: No such file or directory.\n\
      root@b: Permission denied (publickey).\r\n",
        "",
        SshFailure::IdentityMissing,
        &[
            "the private key `/keys/no` for host `root@b` cannot be read: No such file or directory",
            "`ssh-keygen -t ed25519 -N '' -f /keys/no`",
        ],
    ),
    (
        Some(255),
        "Received disconnect from 127.0.0.1 port 12345:2: Too many authentication \
      failures\r\nDisconnected from 127.0.0.1 port 12345\r\n",
        "",
        SshFailure::TooManyKeys,
        &["more keys were offered", "IdentitiesOnly yes"],
    ),
    (
        Some(1),
        "",
        "This account is currently not available.\n",
        SshFailure::AccountClosed,
        &[
            "as user `root`: the account has no login shell",
            "`usermod -s /bin/bash root`",
        ],
    ),
    (
        Some(255),
        "Your account has expired; please contact your system administrator.\n\
      Connection closed by 127.0.0.1 port 12345\r\n",
        "",
        SshFailure::AccountClosed,
        &["`chage -E -1 root`"],
    ),
    (
        Some(142),
        "",
        "Please login as the user \"ubuntu\" rather than the user \"root\".\n",
        SshFailure::OtherUser,
        &["`-H ubuntu@b:SLOTS`"],
    ),
    (
        Some(255),
        "channel 0: open failed: connect failed: open failed\r\n",
        "",
        SshFailure::NoSession,
        &["MaxSessions"],
    ),
];

const THERE: &[Case] = &[
    (
        Some(127),
        "horovod-agent-missing: /opt/py/bin/python3\n",
        "",
        SshFailure::AgentMissing,
        &[
            "host `root@b` has neither `/opt/py/bin/python3` nor `horovodrun`",
            "the wheel that this host has it from, with `python3 -m pip install FILE.whl`",
        ],
    ),
    (
        Some(1),
        "/usr/bin/python3: Error while finding module specification for \
      'horovod.runner.agent' (ModuleNotFoundError: No module named 'horovod')\n",
        "",
        SshFailure::NoHorovod,
        &[
            "`/usr/bin/python3` on host `root@b` has no horovod",
            "`/usr/bin/python3 -m pip install FILE.whl`",
        ],
    ),
    (
        Some(1),
        "/usr/bin/python3: No module named horovod.runner.agent\n",
        "",
        SshFailure::NoHorovod,
        &[
            concat!("is older than this one, ", env!("CARGO_PKG_VERSION")),
            "FILE.whl",
        ],
    ),
    (
        Some(127),
        "bash: line 1: exec: /bin/sh: not found\n",
        "",
        SshFailure::CommandNotFound,
        &["/bin/sh: not found"],
    ),
    (
        Some(1),
        "bash: line 1: echo: write error: No space left on device\n",
        "",
        SshFailure::DiskFull,
        &["no space left", " df -h` shows which is full"],
    ),
    (
        Some(0),
        "",
        "forced\n",
        SshFailure::ForcedCommand,
        &[
            "ran something else",
            "after saying `forced`",
            "ForceCommand",
        ],
    ),
    (
        Some(1),
        "",
        "",
        SshFailure::ForcedCommand,
        &["with status 1 without a word", "/bin/false"],
    ),
    (
        Some(3),
        "what is\x1b[2J this\nit broke\n",
        "hello\n",
        SshFailure::Unknown,
        &[
            "ssh ended with status 3 after saying `what is [2J this` `it broke` `hello`",
            "`ssh -p 12345 root@b true`",
        ],
    ),
    (
        None,
        "",
        "",
        SshFailure::Unknown,
        &["ssh was ended without a word"],
    ),
];

fn options() -> SshOptions {
    SshOptions {
        port: Some(12345),
        identity: None,
        host_keys: HostKeys::AcceptNew,
        connect_timeout: Duration::from_secs(10),
    }
}

/// On a machine of which nothing more is known.
fn explain(
    host: &str,
    options: &SshOptions,
    exit: Option<i32>,
    stderr: &str,
    stdout: &str,
) -> Explanation {
    super::explain(host, options, exit, stderr, stdout, &OwnFiles::default())
}

#[test]
fn every_refusal_has_its_cause_and_its_remedy() {
    for (exit, stderr, stdout, cause, words) in [NETWORK, LOGIN, THERE].concat() {
        for stderr in [stderr.to_owned(), format!("{ADDED}{stderr}")] {
            let found = explain("root@b", &options(), exit, &stderr, stdout);
            assert_eq!(found.cause, cause, "{stderr}{stdout}");
            let text = format!("{}; {}", found.what, found.remedy);
            for word in words {
                assert!(text.contains(word), "no {word:?} in {text:?}");
            }
            assert!(!text.contains(['\r', '\n', '\x1b']), "{text:?}");
        }
    }
}

#[test]
fn the_key_and_the_port_that_were_given_are_in_the_command() {
    let options = SshOptions {
        port: None,
        identity: Some("/my keys/id".into()),
        host_keys: HostKeys::Strict,
        ..options()
    };
    let refused = "me@b: Permission denied (publickey,password).\r\n";
    let found = explain("b", &options, Some(255), refused, "");
    assert!(
        found
            .remedy
            .starts_with("`ssh-copy-id -i '/my keys/id' me@b` asks for it once"),
        "{}",
        found.remedy
    );
    let found = explain(
        "b",
        &options,
        Some(255),
        "Host key verification failed.\r\n",
        "",
    );
    assert!(
        found.remedy.contains("leave out --ssh-strict"),
        "{}",
        found.remedy
    );
    let refused = "ssh: connect to host b port 22: Connection refused\r\n";
    let found = explain("b", &options, Some(255), refused, "");
    assert!(
        found.remedy.contains("name it: `-p 12345`"),
        "{}",
        found.remedy
    );
}

#[test]
fn a_forgotten_port_is_mentioned_where_another_server_answers() {
    let forgotten = SshOptions {
        port: None,
        ..options()
    };
    for methods in ["publickey", "publickey,password"] {
        let refused = format!("me@b: Permission denied ({methods}).\r\n");
        let remedy = |options| explain("b", options, Some(255), &refused, "").remedy;
        let without = remedy(&forgotten);
        let words = "which listens at port 22, but that of a container there, name its port, e.g. \
                     `-p 12345`";
        assert!(without.ends_with(words), "{without}");
        let with = remedy(&options());
        assert!(!with.contains("name its port"), "{with}");
    }
}

/// A login that works otherwise may print anything; only ssh's own status makes it ssh's words.
#[test]
fn words_of_a_profile_are_not_taken_for_those_of_ssh() {
    let noise = "ssh: connect to host nas port 22: Connection refused\n";
    let found = explain("b", &options(), Some(2), noise, "");
    assert_eq!(found.cause, SshFailure::Unknown);
    let found = explain(
        "b",
        &options(),
        Some(127),
        &format!("{noise}horovod-agent-missing: \n"),
        "",
    );
    assert_eq!(found.what, "host `b` has no `horovodrun` on its PATH");
}
