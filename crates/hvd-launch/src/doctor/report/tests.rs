//! Reports as people and programs see them.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::*;
use crate::{driver::findings::tests::healthy, hosts::facts::Interpreter};

fn host(name: &str) -> HostReport {
    let packages = [
        ("horovod", "0.29.0"),
        ("torch", "2.1.0+cu121"),
        ("numpy", "2.0.1"),
    ]
    .map(|(name, version)| (name.to_owned(), version.to_owned()));
    HostReport {
        name: name.to_owned(),
        slots: 2,
        unreachable: None,
        ssh_seconds: Some(0.213),
        clock_offset_seconds: Some(0.01),
        facts: Some(healthy(name)),
        extra: Some(Extra {
            interpreter: Some(Interpreter {
                path: "/usr/bin/python".into(),
                version: "3.11.2".into(),
            }),
            packages: BTreeMap::from(packages),
            gpus: vec!["Fast One".into(); 8],
            mpi: Some("mpirun (Open MPI) 4.1.4".into()),
        }),
    }
}

fn pair(from: &str, to: &str) -> PairReport {
    PairReport {
        from: from.to_owned(),
        to: to.to_owned(),
        address: Some(Ipv4Addr::new(10, 0, 0, 7).into()),
        round_trip_seconds: Some(0.000_123),
        bytes_per_second: Some(1.17e9),
        failure: None,
    }
}

fn finding(severity: Severity) -> HostFinding {
    HostFinding {
        severity,
        host: "node-2".into(),
        what: "something is odd there".into(),
        remedy: "mend it".into(),
    }
}

fn cluster(size: usize) -> DoctorReport {
    let names: Vec<String> = (1..=size).map(|number| format!("node-{number}")).collect();
    let mut pairs = Vec::new();
    for from in &names {
        let others = names.iter().filter(|to| *to != from);
        pairs.extend(others.map(|to| pair(from, to)));
    }
    DoctorReport {
        version: "0.29.0".into(),
        hosts: names.iter().map(|name| host(name)).collect(),
        pairs,
        causes: Vec::new(),
        findings: Vec::new(),
    }
}

fn plain(report: &DoctorReport) -> String {
    human(report, Colours::Without)
}

fn has_line(text: &str, words: &[&str]) -> bool {
    let mut lines = text.lines();
    lines.any(|line| line.split_whitespace().collect::<Vec<_>>() == words)
}

#[test]
fn a_healthy_pair_of_hosts_reads_like_this() {
    let expected = "\
horovod 0.29.0, 2 hosts, 4 slots

host    slots  ssh     clock  cpus  memory  /dev/shm  gpus          container  cpu
node-1  2      213 ms  ok     8     -       100 GiB   8 x Fast One  none       A Processor
node-2  2      213 ms  ok     8     -       100 GiB   8 x Fast One  none       A Processor

host    horovod  python  torch        numpy  script    mpi             interpreter
node-1  0.29.0   3.11.2  2.1.0+cu121  2.0.1  01234567  Open MPI 4.1.4  /usr/bin/python
node-2  0.29.0   3.11.2  2.1.0+cu121  2.0.1  01234567  Open MPI 4.1.4  /usr/bin/python

host    name    user  open files  locked     disk free  tmp free  kernel
node-1  node-1  ann   1024        unlimited  50 GiB     50 GiB    6.1.0
node-2  node-2  ann   1024        unlimited  50 GiB     50 GiB    6.1.0

from    to      address   round trip  bandwidth
node-1  node-2  10.0.0.7  123 us      9.4 Gbit/s
node-2  node-1  10.0.0.7  123 us      9.4 Gbit/s

ready: nothing to complain of
";
    assert_eq!(plain(&cluster(2)), expected);
}

#[test]
fn trouble_is_shown_with_its_remedy() {
    let mut report = cluster(3);
    report.hosts[1] = HostReport {
        unreachable: Some("port 22 refused the connection\n  start sshd there".into()),
        ssh_seconds: None,
        facts: None,
        extra: None,
        ..host("node-2")
    };
    report.pairs.truncate(1);
    report.pairs[0].round_trip_seconds = None;
    report.pairs[0].bytes_per_second = None;
    report.pairs[0].failure = Some(ProbeFailure::Unreachable);
    report.findings = vec![finding(Severity::Fatal), finding(Severity::Note)];
    let text = plain(&report);
    assert!(
        has_line(&text, &["node-2", "2", "not", "reached"]),
        "{text}"
    );
    assert!(
        text.contains(
            "\nnode-2 was not reached:\n  port 22 refused the connection\n    start sshd there\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("10.0.0.7  no route to that address"),
        "{text}"
    );
    assert!(
        text.contains("\nfatal: node-2: something is odd there\n  mend it\n"),
        "{text}"
    );
    let summary = "\nnot ready: 1 host not reached, 1 pair cut off, 1 fatal finding, 1 note\n";
    assert!(text.ends_with(summary), "{text}");
}

#[test]
fn cut_pairs_have_a_cause_and_unmeasured_ones_are_counted() {
    let mut report = cluster(3);
    report.pairs[0].failure = Some(ProbeFailure::TimedOut);
    report.pairs[1].bytes_per_second = None;
    report.causes = vec![format!("a firewall: `ufw allow {}`", "1:2/tcp ".repeat(9))];
    let text = plain(&report);
    assert!(text.contains("no answer in time\n"), "{text}");
    let causes = text.split("likely cause:\n").nth(1).unwrap();
    assert!(
        causes.starts_with("  a firewall: `ufw allow 1:2/tcp"),
        "{text}"
    );
    let counted = "\nbandwidth was measured for 4 of the 5 pairs that work\n";
    assert!(text.contains(counted), "{text}");
}

#[test]
fn commands_are_not_broken() {
    let path = "/a/rather/long/path/to/a/directory/with/a/script";
    let command = format!("rsync -a {path}/train.py node-2:{path}/train.py --and --more");
    let mut report = cluster(2);
    report.findings = vec![HostFinding {
        remedy: format!("share the directory, or copy it: {command}"),
        ..finding(Severity::Fatal)
    }];
    report.hosts[0].unreachable = Some(format!("no such file; try\n  {command}"));
    let text = plain(&report);
    let remedy = format!("\n  share the directory, or copy it:\n    {command}\n");
    assert!(text.contains(&remedy), "{text}");
    let why = format!("\n  no such file; try\n    {command}\n");
    assert!(text.contains(&why), "{text}");
}

#[test]
fn eight_hosts_fit_a_terminal_and_many_are_summed_up() {
    let mut report = cluster(8);
    let model = "A Processor With A Very Long Name For Marketing Reasons @ 2.90GHz, 2nd edition";
    let long = "a-long-host-name.with-a-domain.example.org";
    report.hosts[3].name = long.into();
    report.hosts[3].facts.as_mut().unwrap().cpu_model = Some(model.into());
    report.pairs[5].to = long.into();
    report.pairs[5].failure = Some(ProbeFailure::AnotherHost { identity: 3 });
    report.findings = vec![HostFinding {
        what: "words and words ".repeat(20),
        ..finding(Severity::Warning)
    }];
    let text = plain(&report);
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
    }
    assert!(text.lines().count() < 110, "{text}");

    let mut large = cluster(20);
    large.pairs[7].bytes_per_second = Some(1e6);
    large.pairs[9].failure = Some(ProbeFailure::TimedOut);
    let text = plain(&large);
    assert!(has_line(
        &text,
        &["node-1", "node-9", "10.0.0.7", "123", "us", "8", "Mbit/s"]
    ));
    assert!(
        text.contains("and 369 more pairs that work; round trips from 123 us"),
        "{text}"
    );
    assert!(text.contains("no answer in time"), "{text}");
}

#[test]
fn colours_come_only_when_asked_for() {
    let mut report = cluster(2);
    report.findings = vec![finding(Severity::Warning)];
    let hostile = "\u{1b}]0;title\u{7}";
    report.hosts[0].name = hostile.into();
    report.pairs[0].from = hostile.into();
    report.findings[0].what = hostile.into();
    report.hosts[1].unreachable = Some(hostile.into());
    assert!(!plain(&report).contains('\u{1b}'));
    let painted = human(&report, Colours::With);
    assert!(
        painted.contains("\u{1b}[33mwarning\u{1b}[0m: node-2"),
        "{painted}"
    );
    assert!(!painted.contains("\u{1b}]"));
}

#[test]
fn only_what_keeps_a_job_from_running_is_a_failure() {
    let mut report = cluster(2);
    report.findings = vec![finding(Severity::Warning), finding(Severity::Note)];
    assert_eq!(exit_status(&report), 0);
    assert!(plain(&report).ends_with("\nready: 1 warning, 1 note\n"));
    let mut fatal = report.clone();
    fatal.findings.push(finding(Severity::Fatal));
    let mut lost = report.clone();
    lost.hosts[0].unreachable = Some("no".into());
    let mut cut = report;
    cut.pairs[0].failure = Some(ProbeFailure::Refused);
    for broken in [fatal, lost, cut] {
        assert_eq!(exit_status(&broken), 1);
    }
}

#[test]
fn json_says_the_same_to_programs() {
    let mut report = cluster(2);
    report.pairs[0].failure = Some(ProbeFailure::AnotherHost { identity: 1 });
    let text = json(&report).unwrap();
    assert_eq!(serde_json::from_str::<DoctorReport>(&text).unwrap(), report);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["hosts"][0]["ssh_seconds"], 0.213);
    assert_eq!(value["hosts"][0]["facts"]["container"], "none");
    assert_eq!(value["hosts"][1]["extra"]["packages"]["numpy"], "2.0.1");
    assert_eq!(value["pairs"][0]["failure"]["another-host"]["identity"], 1);
}
