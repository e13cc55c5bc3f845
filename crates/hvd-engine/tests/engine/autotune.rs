//! Whole jobs that are tuned while they run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hvd_engine::{AutotuneOptions, Choice, Dimension, EngineOptions, SetChange, Submission};
use hvd_transport::testing::Wire;
use hvd_types::{OpKind, ProcessSetId, Rank};

use crate::jobs::{Job, floats, run_on_hosts, run_with, tensor};

fn named(name: &str, kind: OpKind, values: &[f32]) -> Submission {
    Submission {
        name: Some(name.into()),
        ..tensor(kind, values)
    }
}

/// Tuning that is over after few steps.
fn quick(log: PathBuf) -> AutotuneOptions {
    AutotuneOptions {
        log: Some(log),
        warmup_samples: 0,
        steps_per_sample: 1,
        max_samples: 10,
        ..AutotuneOptions::default()
    }
}

/// Steps that are enough for `quick`: five samples of each of ten observations, and of those of
/// the contest.
const STEPS: usize = 5 * (10 + 5) + 5;

/// The rows of a log, by column.
struct Table(Vec<Vec<String>>);

impl Table {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let row = |line: &str| line.split(',').map(str::to_owned).collect();
        Self(text.lines().map(row).collect())
    }

    fn column(&self, name: &str) -> Vec<&str> {
        let (header, rows) = self.0.split_first().unwrap();
        let index = header.iter().position(|column| column == name).unwrap();
        rows.iter().map(|row| row[index].as_str()).collect()
    }

    fn distinct(&self, name: &str) -> usize {
        self.column(name).into_iter().collect::<BTreeSet<_>>().len()
    }
}

/// One step: short and long tensors at once, a gather, and something in another process set.
fn step(job: &Job, pair: ProcessSetId) {
    let mine = job.rank_number();
    let lengths = [3, 900, 9_000, 40_000];
    let start = |length: &usize| {
        let name = format!("t{length}");
        job.start(named(&name, OpKind::Allreduce, &vec![mine; *length]))
            .unwrap()
    };
    let handles: Vec<_> = lengths.iter().map(start).collect();
    let gather = job.start(named("g", OpKind::Allgather, &[mine])).unwrap();
    if job.rank.number() < 2 {
        let together = Submission {
            process_set: pair,
            ..named("p", OpKind::Allreduce, &vec![mine; 20_000])
        };
        assert_eq!(floats(&job.call(together).unwrap()), vec![1.0; 20_000]);
    }
    for (handle, length) in handles.into_iter().zip(lengths) {
        assert_eq!(floats(&job.finish(handle).unwrap()), vec![6.0; length]);
    }
    assert_eq!(floats(&job.finish(gather).unwrap()), [0.0, 1.0, 2.0, 3.0]);
}

/// Ranks that did not change their chunks, algorithms or ways at the same point would get each
/// other's bytes wrong, or wait for ever.
fn all_ranks_change_together_and_results_stay_right(wire: Wire) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let options = EngineOptions {
        autotune: Some(quick(path.clone())),
        ..EngineOptions::default()
    };
    run_on_hosts(wire, &["a", "b", "a", "b"], &options, |job| {
        let pair = vec![Rank::new(0), Rank::new(1)];
        let pair = job.change(SetChange::Add(pair)).unwrap();
        for _ in 0..STEPS {
            step(job, pair);
        }
    });
    let table = Table::read(&path);
    for column in [
        "chunk_bytes",
        "small_allreduce_bytes",
        "tensor_fusion_threshold",
    ] {
        assert!(table.distinct(column) > 4, "{column}");
    }
    for column in [
        "hierarchical_allreduce",
        "hierarchical_allgather",
        "cache_enabled",
    ] {
        assert_eq!(table.distinct(column), 2, "{column}");
    }
}

over_every_wire!(all_ranks_change_together_and_results_stay_right);

#[test]
fn a_bad_start_ends_better_and_what_is_fixed_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let options = EngineOptions {
        fusion_threshold: 12_345,
        cycle_time: Duration::from_millis(25),
        autotune: Some(AutotuneOptions {
            fixed: vec![Dimension::FusionThreshold],
            fixed_choices: vec![Choice::Cache],
            ..quick(path.clone())
        }),
        ..EngineOptions::default()
    };
    run_with(Wire::Memory, 2, &options, |job| {
        for _ in 0..STEPS {
            for name in ["a", "b"] {
                let sum = job.call(named(name, OpKind::Allreduce, &[1.0; 100]));
                assert_eq!(floats(&sum.unwrap()), [2.0; 100]);
            }
        }
    });
    let table = Table::read(&path);
    let scores = table.column("score");
    let score = |row: usize| scores[row].parse::<f64>().unwrap();
    // The start waits 25 ms for every tensor.
    let (first, last) = (score(0), score(scores.len() - 1));
    assert!(last > 3.0 * first, "{first} to {last}");
    assert_eq!(table.distinct("tensor_fusion_threshold"), 1);
    assert_eq!(table.distinct("cache_enabled"), 1);
    assert!(table.distinct("cycle_time_ms") > 4);
}
