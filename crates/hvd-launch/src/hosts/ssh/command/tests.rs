//! The command line as words, and its last word as real shells read it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use super::*;

fn options() -> SshOptions {
    SshOptions {
        port: None,
        identity: None,
        host_keys: HostKeys::AcceptNew,
        connect_timeout: Duration::from_secs(10),
    }
}

fn words(options: &SshOptions, host: &str) -> Vec<String> {
    let words = command(options, host, "/opt/py/bin/python3");
    words
        .into_iter()
        .map(|word| word.into_string().unwrap())
        .collect()
}

#[test]
fn the_whole_command_line() {
    let options = SshOptions {
        port: Some(12345),
        identity: Some("/keys/my key".into()),
        ..options()
    };
    let words = words(&options, "root@hostb");
    let (line, words) = words.split_last().unwrap();
    assert_eq!(
        words.join(" "),
        "ssh -T -x -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 \
         -o ServerAliveCountMax=3 -o LogLevel=INFO -o RemoteCommand=none \
         -o ClearAllForwardings=yes -o StrictHostKeyChecking=accept-new -p 12345 \
         -i /keys/my key -- root@hostb"
    );
    assert!(
        line.starts_with("exec /bin/sh -c 'p=/opt/py/bin/python3; [ -f \"$p\" ]"),
        "{line}"
    );
    // Old csh has lines and words of 1024 characters.
    assert!(line.len() < 600, "{}", line.len());
    assert_eq!(
        by_hand(&options, "root@hostb"),
        "ssh -p 12345 -i '/keys/my key' root@hostb"
    );
}

#[test]
fn lines_for_people_carry_what_the_job_was_given() {
    let unchecked = SshOptions {
        host_keys: HostKeys::Unchecked,
        ..options()
    };
    let by_hand = by_hand(&unchecked, "root@hostb");
    assert!(by_hand.contains("-o StrictHostKeyChecking=no"), "{by_hand}");
    assert!(by_hand.ends_with(" root@hostb"), "{by_hand}");
    assert_eq!(run_there("ssh b", "mkdir -p /x"), "ssh b mkdir -p /x");
    assert_eq!(run_there("ssh b", "rm '/a b'"), r"ssh b 'rm '\''/a b'\'''");
}

#[test]
fn host_keys_are_checked_as_asked() {
    let with = |host_keys| {
        let options = SshOptions {
            host_keys,
            connect_timeout: Duration::from_millis(200),
            ..options()
        };
        words(&options, "b").join(" ")
    };
    assert!(with(HostKeys::Strict).contains("-o StrictHostKeyChecking=yes --"));
    let unchecked = with(HostKeys::Unchecked);
    assert!(unchecked.contains("-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"));
    assert!(unchecked.contains("ConnectTimeout=1 "), "{unchecked}");
}

#[test]
fn no_host_is_an_option_and_addresses_lose_their_brackets() {
    for (host, expected) in [
        ("-oProxyCommand=x", "-oProxyCommand=x"),
        ("[fd00::2]", "fd00::2"),
        ("me@[fd00::2]", "me@fd00::2"),
        ("fd00::2", "fd00::2"),
    ] {
        let words = words(&options(), host);
        assert_eq!(words[words.len() - 3..words.len() - 1], ["--", expected]);
    }
}

#[test]
fn kubeflow_has_its_own_way_in() {
    let through = |agent| command_through(agent, &options(), "me@pod-1", "/usr/bin/python3");
    let words = through(Some("/etc/mpi/kubexec.sh"));
    assert_eq!(words[..2], ["/etc/mpi/kubexec.sh", "pod-1"]);
    assert!(words[2].to_str().unwrap().starts_with("exec /bin/sh -c "));
    assert_eq!(words.len(), 3);
    for other in [None, Some("ssh"), Some("/etc/mpi/kubexec.sh -v")] {
        assert_eq!(through(other)[0], "ssh");
    }
}

/// Runs the line in a login shell whose home and `PATH` are given; exit status and all output.
fn run(shell: &str, line: &str, home: &Path, path: &str) -> Option<(Option<i32>, String)> {
    let output = Command::new(shell)
        .arg("-c")
        .arg(line)
        .env_clear()
        .env("HOME", home)
        .env("PATH", path)
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.code(), String::from_utf8(text).unwrap()))
}

fn program(path: &Path, says: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\necho {says} \"$@\"\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Full paths, because the shells run with a `PATH` that lacks them.
fn shells() -> impl Iterator<Item = String> {
    let found = ["sh", "bash", "zsh", "csh", "tcsh", "fish"].map(|name| format!("/bin/{name}"));
    found.into_iter().filter(|path| Path::new(path).exists())
}

#[test]
fn every_login_shell_finds_the_interpreter_first() {
    let place = tempfile::tempdir().unwrap();
    let python = place.path().join("it's \\ a $strange! place/python3");
    program(&python, "python");
    program(&place.path().join("bin/horovodrun"), "horovodrun");
    let path = format!("{}/bin:/usr/bin:/bin", place.path().display());
    let line = shell_line(python.to_str().unwrap());
    for shell in shells() {
        let found = run(&shell, &line, place.path(), &path).unwrap();
        assert_eq!(
            found,
            (Some(0), "python -m horovod.runner.agent\n".to_owned()),
            "{shell}"
        );
    }
}

#[test]
fn without_the_interpreter_horovodrun_is_taken_from_the_path() {
    let place = tempfile::tempdir().unwrap();
    program(&place.path().join("bin/horovodrun"), "horovodrun");
    let path = format!("{}/bin:/usr/bin:/bin", place.path().display());
    for interpreter in ["/nowhere/python3", "", "/usr", "/bin/sh\n"] {
        let found = run("/bin/sh", &shell_line(interpreter), place.path(), &path).unwrap();
        assert_eq!(found, (Some(0), "horovodrun agent --stdio\n".to_owned()));
    }
}

#[test]
fn a_login_profile_may_set_the_path_and_chatter() {
    let place = tempfile::tempdir().unwrap();
    program(&place.path().join("deep/horovodrun"), "horovodrun");
    let profile = "echo welcome\nread answer\nPATH=$HOME/deep:$PATH\n";
    fs::write(place.path().join(".profile"), profile).unwrap();
    let line = shell_line("/nowhere/python3");
    let found = run("/bin/sh", &line, place.path(), "/usr/bin:/bin").unwrap();
    assert_eq!(found, (Some(0), "horovodrun agent --stdio\n".to_owned()));
}

/// Neither the machine's own `horovodrun` nor its profiles count.
#[test]
fn a_host_without_any_agent_says_so_in_one_line() {
    let place = tempfile::tempdir().unwrap();
    let tools = place.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for tool in ["sh", "tail"] {
        let from = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(tool));
        let from = from.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(from, tools.join(tool)).unwrap();
    }
    let path = tools.to_str().unwrap();
    for profile in [".profile", ".zprofile"] {
        fs::write(place.path().join(profile), format!("PATH='{path}'\n")).unwrap();
    }
    let line = shell_line("/nowhere/python3");
    for shell in shells() {
        let found = run(&shell, &line, place.path(), path).unwrap();
        let expected = "horovod-agent-missing: /nowhere/python3\n".to_owned();
        assert_eq!(found, (Some(127), expected), "{shell}");
    }
}

/// ssh tries the addresses of a name one after the other, each for all of its time.
#[test]
fn the_time_to_connect_is_shared_by_all_addresses_of_a_host() {
    let within = |seconds, addresses| {
        let options = SshOptions {
            connect_timeout: Duration::from_secs(seconds),
            ..options()
        };
        options.for_addresses(addresses).connect_timeout.as_secs()
    };
    let times = [0, 1, 2, 7].map(|addresses| within(8, addresses));
    assert_eq!(times, [8, 8, 4, 3]);
    assert_eq!(within(2, 4), 2);
}
