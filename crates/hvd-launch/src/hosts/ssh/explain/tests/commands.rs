//! Commands to type, where it is known what this machine has.

use super::*;
use crate::hosts::ssh::{explain as explain_with, own_files::KnownHosts};

fn known_hosts(writable: &[&str]) -> OwnFiles {
    OwnFiles {
        known_hosts: Some(KnownHosts {
            name: "10.0.0.2".to_owned(),
            port: 2200,
            writable: writable.iter().map(|&file| file.to_owned()).collect(),
        }),
        ..OwnFiles::default()
    }
}

#[test]
fn host_keys_are_added_to_a_file_that_can_be_written() {
    let said = "Host key verification failed.\r\n";
    let remedy = |own| explain_with("b", &options(), Some(255), said, "", &own).remedy;
    let found = remedy(known_hosts(&["/etc/ssh/ssh_known_hosts", "/other"]));
    let line = "`ssh-keyscan -p 2200 10.0.0.2 >> /etc/ssh/ssh_known_hosts` adds it";
    assert!(found.contains(line), "{found}");
    let found = remedy(known_hosts(&[]));
    assert!(found.contains("none of ssh's files"), "{found}");
    assert!(!found.contains("ssh-keyscan"), "{found}");
}

#[test]
fn an_old_host_key_in_a_read_only_file_is_outdone_by_a_new_one() {
    let remedy = |own| explain_with("b", &options(), Some(255), CHANGED, "", &own).remedy;
    let found = remedy(known_hosts(&["/etc/known"]));
    assert!(
        found.contains("`ssh-keygen -f \"/etc/known\" -R "),
        "{found}"
    );
    let found = remedy(known_hosts(&["/var/known"]));
    assert!(
        found.contains("`ssh-keyscan -p 2200 10.0.0.2 >> /var/known`"),
        "{found}"
    );
    let found = remedy(known_hosts(&[]));
    assert!(found.contains("none of ssh's files"), "{found}");
}

/// The line is read by two shells, and its spaces by neither.
#[test]
fn the_wheel_of_this_host_is_sent() {
    let own = OwnFiles {
        wheel: Some("/my dist/horovod-1-py3.whl".to_owned()),
        ..OwnFiles::default()
    };
    let said = "horovod-agent-missing: /x\n";
    let found = explain_with("root@b", &options(), Some(127), said, "", &own);
    assert!(
        found.remedy.starts_with(
            "send it the wheel that this host has it from: `ssh -p 12345 root@b 'cat > \
             horovod-1-py3.whl && env PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install \
             ./horovod-1-py3.whl' < '/my dist/horovod-1-py3.whl'`"
        ),
        "{}",
        found.remedy
    );
}

/// A host whose key changes with every container would refuse these lines, too.
#[test]
fn lines_check_no_host_key_where_the_job_checks_none() {
    let options = SshOptions {
        host_keys: HostKeys::Unchecked,
        ..options()
    };
    let refused = "root@b: Permission denied (publickey,password).\r\n";
    let found = explain_with("b", &options, Some(255), refused, "", &OwnFiles::default());
    let line = "`ssh-copy-id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";
    assert!(found.remedy.contains(line), "{}", found.remedy);
}

#[test]
fn the_key_that_is_missing_there_is_shown() {
    let own = OwnFiles {
        public_key: Some("ssh-ed25519 AAAA".to_owned()),
        ..OwnFiles::default()
    };
    let refused = "root@b: Permission denied (publickey).\r\n";
    let found = explain_with("b", &options(), Some(255), refused, "", &own);
    let line = "`mkdir -p -m 700 ~/.ssh && echo 'ssh-ed25519 AAAA' >> ~/.ssh/authorized_keys`";
    assert!(found.remedy.contains(line), "{}", found.remedy);
}

#[test]
fn an_account_may_be_locked_unless_it_is_root() {
    let remedy = |user: &str| {
        let said = format!("{user}@b: Permission denied (publickey).\r\n");
        explain("b", &options(), Some(255), &said, "").remedy
    };
    assert!(remedy("ann").contains("`usermod -p '*' ann`"));
    assert!(!remedy("root").contains("usermod"));
}
