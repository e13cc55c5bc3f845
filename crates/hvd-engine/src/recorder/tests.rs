//! The ring's rules, its dump word for word, readers against the writer, and what a record costs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

fn event(name: &str) -> FlightEvent<'_> {
    FlightEvent {
        name,
        kind: OpKind::Allreduce,
        dtype: DType::Float32,
        dimensions: &[2, 3],
        process_set: ProcessSetId::GLOBAL,
    }
}

fn recorder() -> (Recorder, Instant) {
    let started = Instant::now();
    let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    (Recorder::starting_at(started, wall), started)
}

#[test]
fn an_operation_is_followed_through_its_states() {
    let (mut recorder, start) = recorder();
    let at = |micros| start + Duration::from_micros(micros);
    let event = FlightEvent {
        kind: OpKind::Reducescatter,
        dtype: DType::Bfloat16,
        process_set: ProcessSetId::new(7),
        ..event("grad")
    };
    let number = recorder.record(&event, at(0));
    recorder.advance(number, OperationState::Negotiating, at(10));
    recorder.advance(number, OperationState::Executing, at(20));
    recorder.advance(number, OperationState::Failed, at(30));
    let expected = Record {
        number: OperationNumber(0),
        name: "grad".to_owned(),
        kind: OpKind::Reducescatter,
        dtype: DType::Bfloat16,
        dimensions: vec![2, 3],
        dimension_count: 2,
        process_set: ProcessSetId::new(7),
        state: OperationState::Failed,
        times: [0, 10, 20, 30].map(|micros| Some(Duration::from_micros(micros))),
    };
    assert_eq!(recorder.history().snapshot(), [expected]);
}

#[test]
fn ring_1_and_3_the_oldest_leave_and_do_not_disturb_their_successors() {
    let (mut recorder, start) = recorder();
    let numbers: Vec<_> = (0..CAPACITY + 10)
        .map(|index| recorder.record(&event(&format!("t{index}")), start))
        .collect();
    recorder.advance(numbers[3], OperationState::Failed, start);
    recorder.advance(numbers[20], OperationState::Done, start);
    let records = recorder.history().snapshot();
    assert_eq!(records.len(), CAPACITY);
    assert_eq!(records[0].name, "t10");
    assert_eq!(records[10].state, OperationState::Done);
    assert_eq!(records[CAPACITY - 1].name, format!("t{}", CAPACITY + 9));
    assert!(
        records
            .iter()
            .all(|record| record.state != OperationState::Failed)
    );
    let ordered = records.is_sorted_by(|left, right| left.number < right.number);
    assert!(ordered);
}

#[test]
fn long_names_keep_both_ends_and_shapes_their_first_dimensions() {
    let (mut recorder, start) = recorder();
    let exactly = "x".repeat(64);
    let long = format!("module.encoder.layer.{}.weight", "é".repeat(40));
    let shape: Vec<u64> = (1..=11).collect();
    for name in [&exactly, &long] {
        let event = FlightEvent {
            dimensions: &shape,
            ..event(name)
        };
        recorder.record(&event, start);
    }
    let records = recorder.history().snapshot();
    assert_eq!(records[0].name, exactly);
    let name = &records[1].name;
    assert!(name.starts_with("module.encoder.layer.é..."), "{name}");
    assert!(name.ends_with("éé.weight"), "{name}");
    assert_eq!(records[1].dimensions, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(records[1].dimension_count, 11);
}

#[test]
fn a_dump_is_a_table_with_the_rank_and_host_on_top() {
    let (mut recorder, start) = recorder();
    let at = |micros| start + Duration::from_micros(micros);
    let first = recorder.record(&event("grad.a"), at(1_500_000));
    recorder.advance(first, OperationState::Negotiating, at(1_500_020));
    recorder.advance(first, OperationState::Executing, at(1_500_300));
    recorder.advance(first, OperationState::Done, at(1_502_000));
    let odd = FlightEvent {
        kind: OpKind::Broadcast,
        dimensions: &[1, 1, 1, 1, 1, 1, 1, 1, 9],
        process_set: ProcessSetId::new(3),
        ..event("odd\nname")
    };
    recorder.record(&odd, at(2_000_001));
    let about = About {
        rank: Rank::new(5),
        host: "gpu-2",
        reason: "lost\nrank 3",
    };
    let expected = "\
# horovod operations of rank 5 on host gpu-2
# reason: lost\\nrank 3
# operations: 2, oldest first
number  state      operation  dtype    shape                  set  submitted          negotiating  executing  ended      name
0       done       allreduce  float32  [2,3]                  0    1700000001.500000  +0.000020    +0.000300  +0.002000  grad.a
1       submitted  broadcast  float32  [1,1,1,1,1,1,1,1,...]  3    1700000002.000001  -            -          -          odd\\nname
";
    assert_eq!(recorder.history().render(about), expected);

    let directory = std::env::temp_dir().join(format!("hvd-recorder-{}", std::process::id()));
    let path = recorder.history().dump(&directory, about).unwrap();
    assert_eq!(path, directory.join("horovod-rank-5.txt"));
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(written, expected);
}

/// Every operation is recorded so that its parts tell on each other: a mixture of two would show.
#[test]
fn ring_2_readers_never_see_half_a_record() {
    let rounds = if cfg!(miri) { 40 } else { 300_000 };
    let (mut recorder, start) = recorder();
    let over = AtomicBool::new(false);
    let history = recorder.history();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !over.load(Ordering::Acquire) {
                seen += history.snapshot().iter().map(assert_whole).count();
            }
            seen
        });
        for round in 0..rounds {
            let dimensions = [round; 8];
            let name = format!("{round}/{}", round.to_string().repeat(6));
            let event = FlightEvent {
                dimensions: &dimensions,
                ..event(&name)
            };
            let when = start + Duration::from_nanos(round);
            let number = recorder.record(&event, when);
            recorder.advance(number, OperationState::Done, when);
        }
        over.store(true, Ordering::Release);
        reader.join().unwrap();
    });
    let last = history.snapshot();
    assert_eq!(last.len(), CAPACITY.min(usize::try_from(rounds).unwrap()));
    for record in &last {
        assert_whole(record);
        assert_eq!(record.state, OperationState::Done);
    }
}

fn assert_whole(record: &Record) {
    let round = record.number.0;
    assert_eq!(record.dimensions, [round; 8]);
    assert_eq!(
        record.name,
        format!("{round}/{}", round.to_string().repeat(6))
    );
    assert_eq!(record.times[0], Some(Duration::from_nanos(round)));
    let ended = (record.state == OperationState::Done).then_some(Duration::from_nanos(round));
    assert_eq!(record.times[3], ended);
}

/// Prints what an operation costs with all its states; the time is read outside, once a turn. The
/// best of many short runs is the cost of the work, whatever else the machine is doing.
#[test]
fn the_cost_of_an_operation_is_printed() {
    let (runs, operations) = if cfg!(miri) { (1, 10) } else { (200, 4096_u32) };
    let (mut recorder, start) = recorder();
    let event = event("DistributedOptimizer.module.layer.17.attention.weight");
    let mut best = Duration::MAX;
    for _ in 0..runs {
        let begin = Instant::now();
        for _ in 0..operations {
            let number = recorder.record(std::hint::black_box(&event), start);
            for state in [
                OperationState::Negotiating,
                OperationState::Executing,
                OperationState::Done,
            ] {
                recorder.advance(number, state, start);
            }
        }
        best = best.min(begin.elapsed());
    }
    let cost = best / operations;
    println!("one operation in four states: {} ns", cost.as_nanos());
    let records = recorder.history().snapshot();
    assert!(
        records
            .iter()
            .all(|record| record.state == OperationState::Done)
    );
}

#[test]
fn the_log_tells_what_is_under_way_before_what_has_ended() {
    let (mut recorder, start) = recorder();
    let waiting = recorder.record(&event("waiting"), start);
    recorder.advance(waiting, OperationState::Negotiating, start);
    for round in 0..300 {
        let number = recorder.record(&event(&format!("ended.{round}")), start);
        recorder.advance(number, OperationState::Done, start);
    }
    let operations = FlightLog(recorder.history()).operations();
    assert_eq!(operations.len(), hvd_wire::snapshot::MAX_OPERATIONS);
    assert_eq!(
        (operations[0].name.as_str(), operations[0].state),
        ("waiting", OperationState::Negotiating)
    );
    assert_eq!(operations[0].ago[2..], [None, None]);
    assert_eq!(operations.last().unwrap().name, "ended.299");
}
