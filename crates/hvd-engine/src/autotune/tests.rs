//! The whole of it, with a clock of its own and a log in a scratch folder.

use std::time::Duration;

use super::parameters::tests::defaults;
use super::*;

/// A job of ten tensors of 100 kB per step; each round of negotiation takes 100 us and the cycle
/// time.
fn run(autotuner: &mut Autotuner) -> Vec<ParameterChange> {
    let names: Vec<Arc<str>> = (0..10).map(|index| format!("t{index}").into()).collect();
    let mut now = Instant::now();
    let mut current = defaults();
    let mut changes = Vec::new();
    for _ in 0..100_000 {
        for name in &names {
            if let Some(change) = autotuner.observe(now, &[(name, 100_000)]) {
                current = change.parameters;
                changes.push(change);
                if change.last {
                    return changes;
                }
            }
            now += Duration::from_micros(100) + current.cycle_time;
        }
    }
    panic!("the tuning does not end");
}

fn rows(path: &Path) -> Vec<Vec<f64>> {
    let table = std::fs::read_to_string(path).unwrap();
    let number = |text: &str| text.parse().unwrap();
    let rows = table.lines().skip(1);
    rows.map(|row| row.split(',').map(number).collect())
        .collect()
}

#[test]
fn the_log_begins_with_the_start_and_ends_with_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let options = AutotuneOptions {
        log: Some(path.clone()),
        fixed_choices: vec![Choice::HierarchicalAllreduce, Choice::HierarchicalAllgather],
        ..AutotuneOptions::default()
    };
    let slow = Parameters {
        cycle_time: Duration::from_millis(25),
        ..defaults()
    };
    let changes = run(&mut Autotuner::new(&options, slow));
    assert_eq!(changes[0].parameters, slow, "told at once");
    let kept = changes.last().unwrap().parameters;
    assert!(kept.cycle_time < Duration::from_micros(100), "{kept:?}");
    let rows = rows(&path);
    assert_eq!(log::last_row(&path, defaults()).unwrap(), kept);
    let (first, last) = (rows[0][6], rows[rows.len() - 1][6]);
    assert!(last > 100.0 * first, "{first} to {last}");
    assert!((21..=24).contains(&rows.len()), "{} rows", rows.len());
}

#[test]
fn it_begins_where_an_earlier_log_ended_but_for_what_is_fixed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    std::fs::write(
        &path,
        "cache_enabled,cycle_time_ms,chunk_bytes,score\n0,25,16384,1\n",
    )
    .unwrap();
    let options = AutotuneOptions {
        start: Some(path.clone()),
        log: Some(path.clone()),
        fixed: vec![Dimension::ChunkBytes],
        ..AutotuneOptions::default()
    };
    let mut autotuner = Autotuner::new(&options, defaults());
    let name: Arc<str> = "t".into();
    let began = autotuner.observe(Instant::now(), &[(&name, 1)]).unwrap();
    let expected = Parameters {
        cycle_time: Duration::from_millis(25),
        cache: false,
        ..defaults()
    };
    assert_eq!(began.parameters, expected);
    assert_eq!(rows(&path).len(), 0, "the log is a new one");
}

#[test]
fn files_that_are_not_there_do_not_stop_it() {
    let nowhere = tempfile::tempdir().unwrap().path().join("gone");
    let options = AutotuneOptions {
        start: Some(nowhere.join("start.csv")),
        log: Some(nowhere.join("log.csv")),
        max_samples: 2,
        ..AutotuneOptions::default()
    };
    let changes = run(&mut Autotuner::new(&options, defaults()));
    assert_eq!(changes[0].parameters, defaults());
}
