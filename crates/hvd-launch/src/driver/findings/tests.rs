//! Each situation that is recognised, with the words for it.

use super::*;
use crate::hosts::facts::{
    Container, Content, DiskSpace, Interpreter, Module, Program, ResourceLimits, Script,
    WorkingDirectory,
};

fn module(name: &str, imported_by: Option<&str>, hash: &str) -> Module {
    Module {
        name: name.to_owned(),
        imported_by: imported_by.map(str::to_owned),
        hash: hash.to_owned(),
    }
}

/// A host with which nothing is wrong.
pub(crate) fn healthy(name: &str) -> HostFacts {
    let space = DiskSpace {
        size: 100 << 30,
        free: 50 << 30,
        free_files: Some(1_000_000),
        read_only: false,
    };
    HostFacts {
        hostname: name.to_owned(),
        identity: format!("boot/1/{name}"),
        version: "0.29.0".to_owned(),
        interfaces: Vec::new(),
        directory: WorkingDirectory::Present,
        program: Some(Program::Found {
            path: "/usr/bin/python".to_owned(),
        }),
        script: Some(Script {
            name: "train.py".to_owned(),
            content: Content::Sha256("0123456789abcdef".to_owned()),
        }),
        modules: vec![
            module("data.py", Some("train.py"), "0123"),
            module("sub/net.py", Some("data.py"), "4567"),
        ],
        clock: 1000.0,
        cpus: 8,
        cpu_model: Some("A Processor".to_owned()),
        memory: None,
        shared_memory: Some(space),
        limits: ResourceLimits {
            open_files: Some(1024),
            open_files_most: Some(4096),
            locked_memory: None,
        },
        disk: Some(space),
        temporary: "/tmp".to_owned(),
        temporary_disk: Some(space),
        container: Container::None,
        user: Some("ann".to_owned()),
        uid: 1000,
        kernel: "6.1.0".to_owned(),
    }
}

fn answer<'a>(name: &'a str, facts: &'a HostFacts) -> HostAnswer<'a> {
    HostAnswer {
        name,
        slots: 2,
        facts,
        extra: None,
        ssh: Some("ssh -p 12345 ann@b"),
        timing: None,
    }
}

const JOB: JobFacts<'static> = JobFacts {
    ranks: 4,
    directory: "/home/ann/my job",
    wheel: Some("/dist/horovod-0.29.0.whl"),
};

/// What is found about a host `b` that differs from its neighbours by `change`.
fn found(change: impl FnOnce(&mut HostFacts)) -> Vec<HostFinding> {
    let (driver, a, mut b) = (healthy("d"), healthy("a"), healthy("b"));
    change(&mut b);
    compare(&driver, &[answer("a", &a), answer("b", &b)], &JOB)
}

/// The same, where there is one thing to find.
fn only(change: impl FnOnce(&mut HostFacts)) -> (Severity, String, String) {
    let mut found = found(change);
    assert_eq!(found.len(), 1, "{found:?}");
    let finding = found.remove(0);
    assert_eq!(finding.host, "b");
    (finding.severity, finding.what, finding.remedy)
}

#[test]
fn healthy_hosts_have_no_findings() {
    assert_eq!(found(|_| {}), []);
}

#[test]
fn another_version_is_fatal() {
    let (severity, what, remedy) = only(|facts| facts.version = "0.28.1".into());
    assert_eq!(severity, Severity::Fatal);
    assert_eq!(what, "horovod 0.28.1 is installed there and 0.29.0 here");
    assert!(
        remedy.ends_with(
            "`ssh -p 12345 ann@b 'cat > horovod-0.29.0.whl && env PIP_BREAK_SYSTEM_PACKAGES=1 \
             python3 -m pip install ./horovod-0.29.0.whl' < /dist/horovod-0.29.0.whl`"
        ),
        "{remedy}"
    );
}

#[test]
fn a_missing_directory_is_the_only_complaint_about_files() {
    let (severity, what, remedy) = only(|facts| {
        facts.directory = WorkingDirectory::Missing;
        facts.disk = None;
        facts.script = Some(Script {
            name: "train.py".into(),
            content: Content::Missing,
        });
    });
    assert_eq!(severity, Severity::Fatal);
    assert_eq!(
        what,
        "the working directory `/home/ann/my job` does not exist there"
    );
    assert!(
        remedy.ends_with(r"ssh -p 12345 ann@b 'mkdir -p '\''/home/ann/my job'\'''"),
        "{remedy}"
    );
    let closed =
        only(|facts| facts.directory = WorkingDirectory::Closed("permission denied".into()));
    assert!(
        closed
            .1
            .contains("cannot be entered there: permission denied")
    );
    assert!(closed.2.contains("user ann"));
    assert!(
        only(|facts| facts.directory = WorkingDirectory::SomethingElse)
            .1
            .contains("is a file")
    );
}

#[test]
fn a_missing_command_is_fatal() {
    let missing = |name: &str| {
        let program = Program::Missing { name: name.into() };
        only(|facts| facts.program = Some(program))
    };
    let (severity, what, remedy) = missing("python");
    assert_eq!(severity, Severity::Fatal);
    assert_eq!(
        what,
        "the command `python` is not in the PATH of the ranks there"
    );
    assert!(remedy.contains("full path"), "{remedy}");
    assert!(
        missing("/opt/python")
            .1
            .contains("`/opt/python` does not exist there")
    );
    let path = "/home/ann/run.sh".to_owned();
    let closed = only(|facts| facts.program = Some(Program::NotExecutable { path }));
    assert_eq!(closed.2, "ssh -p 12345 ann@b chmod +x /home/ann/run.sh");
}

#[test]
fn scripts_are_missing_different_or_unreadable() {
    let with = |content: Content| {
        only(|facts| {
            facts.script = Some(Script {
                name: "train.py".into(),
                content,
            });
        })
    };
    let (severity, what, remedy) = with(Content::Missing);
    assert_eq!(severity, Severity::Fatal);
    assert_eq!(what, "the script `train.py` does not exist there");
    assert!(
        remedy.ends_with(
            "tar -C / -cf - 'home/ann/my job/train.py' | ssh -p 12345 ann@b tar -C / -xf -"
        ),
        "{remedy}"
    );
    let (severity, what, _) = with(Content::Sha256("fedcba9876543210".into()));
    assert_eq!(severity, Severity::Warning);
    assert_eq!(
        what,
        "the script `train.py` is another one there: fedcba98 instead of 01234567 here"
    );
    assert_eq!(with(Content::Unreadable("no".into())).0, Severity::Fatal);
}

#[test]
fn modules_of_the_users_own_are_missing_or_different() {
    let only = |change: fn(&mut HostFacts)| {
        let found = found(change);
        assert!(found.len() <= 1, "{found:?}");
        found.into_iter().next().map(|one| (one.what, one.remedy))
    };
    assert_eq!(only(|_| {}), None);
    let (what, remedy) = only(|facts| facts.modules[1].hash = "89ab".to_owned()).unwrap();
    assert_eq!(
        what,
        "`sub/net.py`, which `data.py` imports, is another one there: 89ab instead of 4567 here"
    );
    assert!(remedy.contains("'home/ann/my job/sub/net.py'"), "{remedy}");
    let (what, _) = only(|facts| drop(facts.modules.pop())).unwrap();
    assert_eq!(
        what,
        "`sub/net.py`, which `data.py` imports, does not exist there"
    );
    // What another version of the script imports there is not known here.
    let (what, _) = only(|facts| {
        facts.modules.clear();
        facts.script.as_mut().unwrap().content = Content::Sha256("fedcba98".to_owned());
    })
    .unwrap();
    assert!(
        what.starts_with("the script `train.py` is another one"),
        "{what}"
    );
}

#[test]
fn a_module_that_python_m_runs_here_and_not_there_is_told() {
    let (mut driver, a) = (healthy("d"), healthy("a"));
    let mut b = healthy("b");
    let named = |name: &str| module(name, None, "0123");
    driver.modules = vec![named("package/train.py")];
    (b.modules, b.script) = (Vec::new(), None);
    let mut same = a.clone();
    same.modules.clone_from(&driver.modules);
    let found = compare(&driver, &[answer("a", &same), answer("b", &b)], &JOB);
    let words: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(
        words,
        ["`package/train.py`, which `python -m` runs here, does not exist there"]
    );
    assert_eq!(found[0].severity, Severity::Warning);
}

#[test]
fn many_modules_are_not_listed_one_by_one() {
    let mut driver = healthy("d");
    let imported = |n| module(&format!("m{n}.py"), Some("train.py"), "0123");
    driver.modules = (0..20).map(imported).collect();
    let (a, b) = (driver.clone(), healthy("b"));
    let found = compare(&driver, &[answer("a", &a), answer("b", &b)], &JOB);
    assert_eq!(found.len(), 6);
    assert!(found[5].what.starts_with("15 more files"), "{found:?}");
}

#[test]
fn a_program_that_is_the_script_is_missed_once() {
    let name = "./run.sh".to_owned();
    let (_, what, _) = only(|facts| {
        facts.program = Some(Program::Missing { name: name.clone() });
        facts.script = Some(Script {
            name,
            content: Content::Missing,
        });
    });
    assert!(what.starts_with("the command `./run.sh`"), "{what}");
}

#[test]
fn without_a_script_here_hosts_are_compared_with_the_first() {
    let (mut driver, a, mut b) = (healthy("d"), healthy("a"), healthy("b"));
    driver.script = None;
    b.script = Some(Script {
        name: "train.py".into(),
        content: Content::Sha256("fedcba9876543210".into()),
    });
    let found = compare(&driver, &[answer("a", &a), answer("b", &b)], &JOB);
    assert!(
        found[0].what.ends_with("instead of 01234567 on a"),
        "{found:?}"
    );
}

#[test]
fn a_script_that_is_nowhere_has_a_wrong_path() {
    let mut facts = healthy("b");
    facts.script.as_mut().unwrap().content = Content::Missing;
    let found = compare(&facts, &[answer("b", &facts)], &JOB);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].remedy.contains("does not exist here either"));
}

#[test]
fn clocks_are_judged_with_the_doubt_of_the_round_trip() {
    let facts = healthy("b");
    let at = |driver: f64, round_trip: f64| {
        let mut host = answer("b", &facts);
        host.timing = Some(AnswerTiming {
            clock: driver,
            round_trip: Duration::from_secs_f64(round_trip),
        });
        compare(&healthy("d"), &[host], &JOB)
    };
    assert_eq!(at(1001.9, 0.0), []);
    // Anything within the round trip may be the way.
    assert_eq!(at(1006.0, 8.0), []);
    let behind = at(1010.0, 0.0).remove(0);
    assert_eq!(behind.severity, Severity::Warning);
    assert!(
        behind
            .what
            .starts_with("the clock there is 10 s behind the one here")
    );
    assert!(behind.remedy.contains("chrony"));
    let ahead = at(0.0, 0.0).remove(0);
    assert!(ahead.what.contains("17 min ahead of"), "{}", ahead.what);
    assert!(ahead.what.contains("TLS"), "{}", ahead.what);
}

#[test]
fn two_names_of_one_machine_are_fatal() {
    let facts = healthy("node");
    let hosts = ["a", "b", "a"].map(|name| answer(name, &facts));
    let found = compare(&healthy("d"), &hosts[..2], &JOB);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].severity, Severity::Fatal);
    assert_eq!(found[0].what, "`a` and `b` are one machine, node");
    assert_eq!(found[0].remedy, "list it once with all its slots: a:4");
    // The same name twice is refused elsewhere, and a machine of unknown identity is its own.
    assert_eq!(compare(&healthy("d"), &[hosts[0], hosts[2]], &JOB), []);
    let mut unknown = healthy("node");
    unknown.identity.clear();
    let hosts = ["a", "b"].map(|name| answer(name, &unknown));
    assert_eq!(compare(&healthy("d"), &hosts, &JOB), []);
}

#[test]
fn full_disks_are_fatal_for_temporary_files_only() {
    let full = |space: &mut Option<DiskSpace>| space.as_mut().unwrap().free = 1000;
    let (severity, what, remedy) = only(|facts| full(&mut facts.temporary_disk));
    assert_eq!(severity, Severity::Fatal);
    assert!(what.contains("is full (1000 B free of 100 GiB)"), "{what}");
    assert!(remedy.contains("TMPDIR"), "{remedy}");
    assert_eq!(only(|facts| full(&mut facts.disk)).0, Severity::Warning);
    let inodes = only(|facts| facts.disk.as_mut().unwrap().free_files = Some(0));
    assert!(inodes.1.contains("no free inodes"), "{}", inodes.1);
    assert!(
        only(|facts| facts.temporary_disk = None)
            .1
            .contains("does not exist")
    );
    // A read-only image is always full, and no program writes there.
    let image = |facts: &mut HostFacts| {
        full(&mut facts.disk);
        facts.disk.as_mut().unwrap().read_only = true;
    };
    assert_eq!(found(image), []);
}

/// As in a container that was started with `--read-only`: the job's key is in `/dev/shm` then.
#[test]
fn read_only_temporary_files_are_fatal_only_without_shared_memory() {
    let read_only = |facts: &mut HostFacts| {
        facts.container = Container::Docker;
        facts.temporary_disk.as_mut().unwrap().read_only = true;
    };
    let (severity, what, remedy) = only(read_only);
    assert_eq!(severity, Severity::Warning);
    assert!(what.contains("is read-only there"), "{what}");
    assert_eq!(remedy, "start the container with --tmpfs /tmp");
    let (severity, ..) = only(|facts| {
        read_only(facts);
        facts.shared_memory = None;
    });
    assert_eq!(severity, Severity::Fatal);
}

#[test]
fn small_shared_memory_is_reported_with_the_engines_option() {
    let small = |container: Container| {
        only(|facts| {
            facts.container = container;
            facts.shared_memory.as_mut().unwrap().free = 60 << 20;
        })
    };
    let (severity, what, remedy) = small(Container::Docker);
    assert_eq!(severity, Severity::Note);
    assert!(
        what.contains("60 MiB free") && what.contains("128 MiB"),
        "{what}"
    );
    assert!(remedy.contains("--shm-size=1g"), "{remedy}");
    assert!(small(Container::Kubernetes).2.contains("emptyDir"));
    assert!(small(Container::None).2.contains("remount"));
}

#[test]
fn limits_and_processors_are_compared_with_the_job() {
    let (severity, what, remedy) = only(|facts| facts.limits.open_files = Some(139));
    assert_eq!(severity, Severity::Warning);
    assert!(what.contains("139 files open") && what.contains("need 140 for 4 ranks"));
    assert!(remedy.contains("ulimit -n 140"), "{remedy}");
    assert_eq!(found(|facts| facts.limits.open_files = Some(140)), []);
    assert_eq!(found(|facts| facts.limits.open_files = None), []);
    let hard = only(|facts| {
        facts.limits.open_files = Some(100);
        facts.limits.open_files_most = Some(100);
    });
    assert!(hard.2.contains("limits.conf"), "{}", hard.2);
    let (severity, what, _) = only(|facts| facts.cpus = 1);
    assert_eq!(
        (severity, &*what),
        (Severity::Note, "2 ranks share 1 CPU there")
    );
}

#[test]
fn frameworks_are_compared_with_the_first_host_that_tells() {
    let extra = |python: &str, packages: &[(&str, &str)]| Extra {
        interpreter: Some(Interpreter {
            path: "/venv/bin/python".into(),
            version: python.into(),
        }),
        packages: packages
            .iter()
            .map(|&(name, version)| (name.to_owned(), version.to_owned()))
            .collect(),
        ..Extra::default()
    };
    let ours = extra(
        "3.11.2",
        &[("horovod", "0.29.0"), ("numpy", "2.0"), ("torch", "2.1")],
    );
    let judge = |theirs: &Extra| {
        let facts = [healthy("a"), healthy("b")];
        let mut hosts = [answer("a", &facts[0]), answer("b", &facts[1])];
        hosts[0].extra = Some(&ours);
        hosts[1].extra = Some(theirs);
        compare(&healthy("d"), &hosts, &JOB)
    };
    assert_eq!(judge(&ours), []);
    assert_eq!(
        judge(&extra("3.11.9", &[("numpy", "2.0"), ("torch", "2.1")])),
        []
    );
    let found = judge(&extra("3.9.1", &[("horovod", "0.28.0"), ("torch", "2.0")]));
    let whats: Vec<&str> = found.iter().map(|finding| &*finding.what).collect();
    assert_eq!(
        whats,
        [
            "`/venv/bin/python` has horovod 0.28.0, and 0.29.0 is here",
            "Python 3.9.1 runs there and 3.11.2 on a",
            "numpy is not installed there; a has 2.0",
            "torch 2.0 is installed there and 2.1 on a",
        ]
    );
    assert_eq!(found[0].severity, Severity::Fatal);
    assert_eq!(found[3].severity, Severity::Warning);
    assert_eq!(
        found[3].remedy,
        "ssh -p 12345 ann@b '/venv/bin/python -m pip install torch==2.1'"
    );
    let none = judge(&Extra::default());
    assert_eq!(none.len(), 1, "{none:?}");
    assert!(none[0].what.contains("no Python"));
}

#[test]
fn the_worst_comes_first() {
    let found = found(|facts| {
        facts.cpus = 1;
        facts.limits.open_files = Some(10);
        facts.version = "0.1.0".into();
    });
    let severities: Vec<Severity> = found.iter().map(|finding| finding.severity).collect();
    assert_eq!(
        severities,
        [Severity::Fatal, Severity::Warning, Severity::Note]
    );
}
