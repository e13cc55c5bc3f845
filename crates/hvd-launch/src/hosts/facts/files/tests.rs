//! Directories, programs and scripts, found and missing.

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

fn question(home: &TempDir, command: &[&str]) -> Question {
    Question {
        directory: home.path().to_str().unwrap().to_owned(),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        environment: vec![("PATH".into(), "/no/such:bin:/bin".into())],
    }
}

fn write(home: &TempDir, name: &str, text: &str, mode: u32) {
    let path = home.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn directories_are_present_missing_or_something_else() {
    let home = TempDir::new().unwrap();
    write(&home, "file", "", 0o644);
    let at = |name: &str| directory(home.path().join(name).to_str().unwrap());
    assert_eq!(at("."), WorkingDirectory::Present);
    assert_eq!(at("other"), WorkingDirectory::Missing);
    assert_eq!(at("file"), WorkingDirectory::SomethingElse);
    assert_eq!(at("file/below"), WorkingDirectory::Missing);
}

#[test]
fn programs_are_found_as_the_ranks_would_find_them() {
    let home = TempDir::new().unwrap();
    write(&home, "bin/tool", "", 0o755);
    write(&home, "bin/notes", "", 0o644);
    let find = |command: &str| program(&question(&home, &[command])).unwrap();
    let found = |name: &str| Program::Found {
        path: home.path().join(name).to_str().unwrap().to_owned(),
    };
    // A relative entry of PATH counts from the directory of the ranks.
    assert_eq!(find("tool"), found("bin/tool"));
    assert_eq!(find("bin/tool"), found("bin/tool"));
    assert!(matches!(find("sh"), Program::Found { path } if path == "/bin/sh"));
    assert!(matches!(find("notes"), Program::NotExecutable { .. }));
    assert!(matches!(find("gone"), Program::Missing { name } if name == "gone"));
    assert!(matches!(find("bin"), Program::Missing { .. }));
    assert_eq!(program(&question(&home, &[])), None);
}

#[test]
fn the_script_is_what_python_would_run() {
    let script_of = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        is_python(&words[0])
            .then(|| python_run(&words[1..]))
            .flatten()
            .map(|run| match run {
                Run::File(name) => name,
                Run::Module(name) => format!("module {name}"),
            })
    };
    let cases = [
        ("python train.py --lr x.py", Some("train.py")),
        (
            "/opt/venv/bin/python3.12 -u -X dev train.py",
            Some("train.py"),
        ),
        (
            "python3 -uW ignore -Wd -Xdev sub/train.py",
            Some("sub/train.py"),
        ),
        ("python --check-hash-based-pycs never run", Some("run")),
        (
            "python -m package.train data.py",
            Some("module package.train"),
        ),
        (
            "python -um package.train data.py",
            Some("module package.train"),
        ),
        ("python -W ignore -mpackage x", Some("module package")),
        ("python -m", None),
        ("python -c pass data.py", None),
        ("python - data.py", None),
        ("python -V", None),
        ("pythonic train.py", None),
        ("bash train.py", None),
    ];
    for (line, expected) in cases {
        assert_eq!(script_of(line).as_deref(), expected, "{line}");
    }
}

#[test]
fn scripts_are_hashed_where_the_ranks_start() {
    let home = TempDir::new().unwrap();
    write(&home, "train.py", "abc", 0o644);
    write(&home, "run.sh", "#!/bin/sh\n", 0o755);
    let content_of = |command: &[&str]| script(&question(&home, command)).map(|one| one.content);
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        content_of(&["python", "train.py"]),
        Some(Content::Sha256(abc.into()))
    );
    assert_eq!(content_of(&["python", "gone.py"]), Some(Content::Missing));
    assert_eq!(content_of(&["python", "."]), Some(Content::Unhashed));
    assert!(matches!(
        content_of(&["./run.sh"]),
        Some(Content::Sha256(_))
    ));
    let absolute = home.path().join("run.sh");
    assert!(content_of(&[absolute.to_str().unwrap()]).is_some());
    // A binary of the system, and a command from PATH.
    assert_eq!(content_of(&["/bin/sh", "train.py"]), None);
    assert_eq!(content_of(&["tool"]), None);
}

#[test]
fn huge_files_and_pipes_are_not_read() {
    let home = TempDir::new().unwrap();
    write(&home, "huge.py", "", 0o644);
    let huge = File::options()
        .write(true)
        .open(home.path().join("huge.py"))
        .unwrap();
    huge.set_len(HASHED + 1).unwrap();
    let pipe = home.path().join("pipe.py");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(content(&home.path().join("huge.py")), Content::Unhashed);
    assert_eq!(content(&pipe), Content::Unhashed);
}
