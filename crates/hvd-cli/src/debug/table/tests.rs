//! Tables word for word.

use hvd_launch::debug::{
    JobRank,
    snapshot::{Origin, RankReport, StackFrame, ThreadStack},
};
use hvd_types::{OpKind, ProcessSetId, Rank};

use super::*;

pub(crate) fn status() -> JobStatus {
    let member = |pid| JobRank {
        pid,
        host: "localhost".to_owned(),
    };
    JobStatus {
        description: JobDescription {
            supervisor: 10,
            driver: 11,
            age: Duration::from_millis(12_300),
            command: "python train.py".to_owned(),
            ranks: vec![member(12), member(13), member(14)],
        },
        states: vec![RankState::Present; 3],
        reports: vec![
            report(
                0,
                Some(("allreduce.x", OperationState::Negotiating, 11_200)),
            ),
            report(1, Some(("allreduce.first", OperationState::Done, 12_000))),
            report(2, None),
        ],
    }
}

fn report(rank: u32, told: Option<(&str, OperationState, u64)>) -> RankReport {
    let frame = |file: &str, line, function: &str, origin| StackFrame {
        file: file.to_owned(),
        line,
        function: function.to_owned(),
        origin,
    };
    let snapshot = told.map(|(name, state, ago)| RankSnapshot {
        process: 12 + rank,
        wires: "shared memory".to_owned(),
        operations: vec![OperationStatus {
            name: name.to_owned(),
            kind: OpKind::Allreduce,
            state,
            process_set: ProcessSetId::GLOBAL,
            ago: [Some(Duration::from_millis(ago)); 4],
        }],
        threads: vec![ThreadStack {
            name: "MainThread".to_owned(),
            frames: vec![
                frame("/u/data.py", 42, "load\"batch", Origin::Program),
                frame("/u/train.py", 80, "main", Origin::Program),
            ],
        }],
        unknown: String::new(),
    });
    RankReport {
        rank: Rank::new(rank),
        host: "localhost".to_owned(),
        snapshot,
    }
}

#[test]
fn a_table_has_one_line_per_rank() {
    let lines: Vec<String> = brief(&status()).lines().map(str::to_owned).collect();
    assert_eq!(
        lines[0],
        "job 10: 3 ranks, running for 12.3 s: python train.py"
    );
    let cells = |line: &str| {
        line.split("  ")
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(cells(&lines[2]), TITLES);
    let python = "data.py:42 in load\"batch (called from train.py:80 in main)";
    assert_eq!(
        cells(&lines[3]),
        [
            "0",
            "localhost",
            "12",
            "waiting",
            "allreduce",
            "11.2 s",
            "allreduce.x",
            python
        ]
    );
    assert_eq!(
        cells(&lines[4]),
        [
            "1",
            "localhost",
            "13",
            "idle",
            "last allreduce",
            "12.0 s ago",
            "allreduce.first",
            python
        ]
    );
    assert_eq!(
        cells(&lines[5])[..4],
        ["2", "localhost", "14", "not answering"]
    );
    assert_eq!(lines[6..], ["", "transport: shared memory"]);
}

#[test]
fn ranks_with_different_transports_are_told_apart() {
    let mut mixed = status();
    let snapshot = mixed.reports[1].snapshot.as_mut().unwrap();
    snapshot.wires = "tcp because rank 0 on the same host has another host name".to_owned();
    let text = brief(&mixed);
    assert!(
        text.contains("\n\ntransport of ranks 0: shared memory\n"),
        "{text}"
    );
    assert!(
        text.contains("\ntransport of ranks 1: tcp because rank 0"),
        "{text}"
    );
}

#[test]
fn the_full_account_has_operations_and_stacks() {
    let text = in_full(&status());
    assert!(
        text.contains("rank 0 on localhost, its last operations:"),
        "{text}"
    );
    assert!(
        text.contains("11.2 s ago  negotiating  allreduce      allreduce.x"),
        "{text}"
    );
    assert!(text.contains("    /u/train.py:80 in main"), "{text}");
}

#[test]
fn what_is_not_known_is_said() {
    let mut silent = status();
    silent.reports.clear();
    assert!(brief(&silent).contains("rank 0, which collects the answers, did not answer"));
    silent.states = vec![RankState::Present, RankState::Absent, RankState::Ended];
    let text = brief(&silent);
    assert!(text.contains("in hvd.init(), waiting for others"), "{text}");
    assert!(text.contains("has not called hvd.init()"), "{text}");
    assert!(text.contains("ended"), "{text}");
    assert!(!text.contains("did not answer"), "{text}");
}
