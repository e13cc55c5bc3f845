//! A scripted recording against its golden file, what remains after crashes, full disks and full
//! queues, recordings one after another, and what an event costs.

mod json;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use proptest::prelude::*;

use self::json::Json;
use self::support::{FakeClock, Memory, Scratch};
use super::file::TraceFile;
use super::trace::Trace;
use super::writer::{queue, run};
use super::*;

fn timeline() -> (Timeline, FakeClock) {
    let clock = FakeClock::new();
    (Timeline::with_clock(Box::new(clock.clone())), clock)
}

fn objects(text: &str) -> Vec<BTreeMap<String, Json>> {
    let json = Json::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    json.objects().into_iter().cloned().collect()
}

fn record_script(timeline: &Timeline, clock: &FakeClock) {
    let grad: Arc<str> = "allreduce.grad".into();
    clock.advance(5);
    timeline.cycle_start();
    clock.advance(5);
    timeline.negotiate_start(&grad, OpKind::Allreduce);
    timeline.rank_ready(&grad, 0);
    clock.advance(5);
    timeline.negotiate_start(&grad, OpKind::Allreduce);
    timeline.rank_ready(&grad, 1);
    clock.advance(5);
    timeline.negotiate_end(&grad);
    clock.advance(5);
    timeline.operation_start(&grad, OpKind::Allreduce);
    timeline.activity_start(&grad, Activity::MemcpyInFusionBuffer);
    clock.advance(5);
    timeline.activity_end(&grad);
    timeline.activity_start(&grad, Activity::Collective(OpKind::Allreduce));
    clock.advance(1000);
    timeline.activity_end(&grad);
    timeline.operation_end(&grad, Some((DType::Float32, &Shape::new([2, 3]))));
    clock.advance(5);
    timeline.operation_queued(&grad, OpKind::Allreduce);
    clock.advance(5);
    timeline.operation_start(&grad, OpKind::Allreduce);
    clock.advance(5);
    timeline.operation_end(&grad, None);
    let wrong: Arc<str> = "broadcast.wrong".into();
    clock.advance(5);
    timeline.negotiate_start(&wrong, OpKind::Broadcast);
    timeline.negotiate_end(&wrong);
    timeline.operation_refused(&wrong);
}

#[test]
fn a_recording_looks_like_the_golden_file() {
    let scratch = Scratch::new();
    let path = scratch.join("golden.json");
    let (timeline, clock) = timeline();
    timeline.start(&path, CycleMarks::Shown).unwrap();
    assert!(timeline.is_recording());
    record_script(&timeline, &clock);
    timeline.stop();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, include_str!("tests/golden.json"));
    objects(&text);
}

#[test]
fn activities_have_the_names_that_tools_look_for() {
    let plain = [
        (Activity::InitFusionBuffer, "INIT_FUSION_BUFFER"),
        (Activity::AllocateOutput, "ALLOCATE_OUTPUT"),
        (Activity::MemcpyInFusionBuffer, "MEMCPY_IN_FUSION_BUFFER"),
        (Activity::MemcpyOutFusionBuffer, "MEMCPY_OUT_FUSION_BUFFER"),
    ];
    for (activity, label) in plain {
        assert_eq!(activity.label(), label);
    }
    let collectives = OpKind::ALL.map(|kind| Activity::Collective(kind).label());
    assert_eq!(
        collectives,
        [
            "GLOO_ALLREDUCE",
            "GLOO_ALLGATHER",
            "GLOO_BCAST",
            "JOIN",
            "MPI_ADASUM_ALLREDUCE",
            "MPI_ALLTOALL",
            "BARRIER",
            "GLOO_REDUCESCATTER"
        ]
    );
}

/// One file for each start, also without a stop between; the same file again changes nothing.
#[test]
fn trace_3_recordings_follow_each_other_into_complete_files() {
    let scratch = Scratch::new();
    let (timeline, _) = timeline();
    let names: Vec<Arc<str>> = ["a", "b", "c", "d", "e"].map(Arc::from).to_vec();
    for (round, name) in names.iter().enumerate() {
        let path = scratch.join(&format!("{round}.json"));
        timeline.start(&path, CycleMarks::Hidden).unwrap();
        timeline.negotiate_start(name, OpKind::Allgather);
        timeline.start(&path, CycleMarks::Shown).unwrap();
        timeline.negotiate_end(name);
        timeline.cycle_start();
        if round == 1 {
            timeline.stop();
            timeline.stop();
        }
    }
    drop(timeline.clone());
    drop(timeline);
    for (round, name) in names.iter().enumerate() {
        let text = fs::read_to_string(scratch.join(&format!("{round}.json"))).unwrap();
        let objects = objects(&text);
        assert_eq!(objects.len(), 6, "{text}");
        assert!(text.contains(&format!("\"pid\": 1, \"args\": {{\"name\": \"{name}\"}}")));
        assert!(text.contains("NEGOTIATE_ALLGATHER"));
        assert!(text.contains("start_time_since_epoch_in_micros"));
        assert!(!text.contains("CYCLE_START"), "marks were not asked for");
    }
}

#[test]
fn trace_1_a_crash_after_any_event_leaves_valid_json() {
    let started = Instant::now();
    let mut memory = Memory::with_room(usize::MAX);
    let mut file = TraceFile::create(&mut memory, &Trace::opening(std::time::UNIX_EPOCH)).unwrap();
    let mut trace = Trace::new(started);
    let names = [
        "say \"hi\"",
        "back\\slash",
        "two\nlines\t\u{1}",
        "größe/重み/🦀",
    ];
    let mut count = objects(file.medium().text()).len();
    assert_eq!(count, 2);
    for name in names.map(Arc::<str>::from) {
        for happening in full_life() {
            trace.add(&TimelineEvent::Tensor(
                started,
                Arc::clone(&name),
                happening,
            ));
            let objects_of_event = trace.take();
            count += objects_of_event.ends.len();
            file.append(&objects_of_event).unwrap();
            assert_eq!(objects(file.medium().text()).len(), count);
        }
    }
    let told: Vec<_> = objects(memory.text())
        .iter()
        .filter_map(name_in_args)
        .collect();
    assert_eq!(told, names);
}

/// What a kill leaves unfinished at the border of a page: no write of objects may cross one.
#[test]
fn trace_1_no_write_of_objects_crosses_a_page() {
    let started = Instant::now();
    let mut memory = Memory::with_room(usize::MAX);
    let mut file = TraceFile::create(&mut memory, &Trace::opening(std::time::UNIX_EPOCH)).unwrap();
    let mut trace = Trace::new(started);
    let mut count = 2;
    for round in 0..700 {
        let name: Arc<str> = format!("tensor.{round}{}", "x".repeat(round % 97)).into();
        for happening in full_life() {
            trace.add(&TimelineEvent::Tensor(
                started,
                Arc::clone(&name),
                happening,
            ));
        }
        if round % 7 == 0 {
            let batch = trace.take();
            count += batch.ends.len();
            file.append(&batch).unwrap();
        }
    }
    assert_eq!(objects(file.medium().text()).len(), count);
    file.finish().unwrap();
    assert_eq!(objects(memory.text()).len(), count);
    assert!(memory.text().ends_with("}\n]\n"), "no space is left over");
    assert!(
        memory.bytes.len() > 2 * (256 << 10),
        "the bracket was moved"
    );
    // The last write is that of the final bracket.
    let writes = &memory.writes[..memory.writes.len() - 1];
    let crosses = |&&(start, end): &&(usize, usize)| start / 4096 != (end - 1) / 4096;
    let crossings = writes.iter().filter(crosses).count();
    let moves = memory.bytes.len() / (256 << 10) + 1;
    assert!(
        crossings <= moves,
        "{crossings} writes cross a page; only those of new space may, {moves}: {:?} of {}",
        writes.iter().filter(crosses).collect::<Vec<_>>(),
        memory.bytes.len()
    );
}

#[test]
fn a_name_longer_than_a_page_is_written_all_the_same() {
    let started = Instant::now();
    let mut memory = Memory::with_room(usize::MAX);
    let mut file = TraceFile::create(&mut memory, &Trace::opening(std::time::UNIX_EPOCH)).unwrap();
    let mut trace = Trace::new(started);
    let name = "n".repeat(300_000);
    trace.add(&TimelineEvent::Tensor(
        started,
        name.as_str().into(),
        Happening::Refused,
    ));
    file.append(&trace.take()).unwrap();
    trace.add(&TimelineEvent::Cycle(started));
    file.append(&trace.take()).unwrap();
    let objects = objects(file.medium().text());
    assert_eq!(objects.len(), 2 + 4 + 1);
    assert_eq!(name_in_args(&objects[2]), Some(name));
}

fn name_in_args(object: &BTreeMap<String, Json>) -> Option<String> {
    match object.get("args")? {
        Json::Object(args) => match args.get("name")? {
            Json::Text(name) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn full_life() -> Vec<Happening> {
    vec![
        Happening::NegotiateStart(OpKind::Alltoall),
        Happening::RankReady(0),
        Happening::RankReady(12),
        Happening::NegotiateEnd,
        Happening::Queued(OpKind::Alltoall),
        Happening::OperationStart(OpKind::Alltoall),
        Happening::ActivityStart(Activity::MemcpyInFusionBuffer),
        Happening::ActivityEnd,
        Happening::ActivityStart(Activity::Collective(OpKind::Alltoall)),
        Happening::ActivityEnd,
        Happening::OperationEnd(Some((DType::Bool, Shape::new([])))),
        Happening::NegotiateStart(OpKind::Barrier),
        Happening::NegotiateEnd,
        Happening::Refused,
    ]
}

#[test]
fn a_full_queue_loses_events_counts_them_and_says_so() {
    let started = Instant::now();
    let (sink, source) = queue(2);
    for _ in 0..5 {
        assert!(
            sink.push(TimelineEvent::Cycle(started)).is_ok(),
            "never blocks"
        );
    }
    drop(sink);
    let mut memory = Memory::with_room(usize::MAX);
    let file = TraceFile::create(&mut memory, &Trace::opening(std::time::UNIX_EPOCH)).unwrap();
    run(file, source, started, Path::new("trace"));
    let text = memory.text();
    assert_eq!(objects(text).len(), 2 + 2 + 1);
    assert!(text.contains("\"DROPPED_EVENTS\", \"ts\": 0, \"s\": \"g\", \"args\": {\"count\": 3}"));
}

proptest! {
    #[test]
    fn trace_2_whatever_is_lost_begins_and_ends_nest(lost in prop::collection::vec(any::<bool>(), 56)) {
        let started = Instant::now();
        let mut trace = Trace::new(started);
        let lives = std::iter::repeat_with(full_life).take(4).flatten();
        for (happening, lost) in lives.zip(&lost) {
            if !lost {
                trace.add(&TimelineEvent::Tensor(started, "x".into(), happening));
            }
        }
        let text = format!("[{}]", trace.take().text.trim_start_matches(",\n"));
        let objects = if text == "[]" { Vec::new() } else { objects(&text) };
        let mut depth = 0_u32;
        for object in objects {
            match &object["ph"] {
                Json::Text(phase) if phase == "B" => depth += 1,
                Json::Text(phase) if phase == "E" => {
                    prop_assert!(depth > 0, "an end without a beginning in {}", text);
                    depth -= 1;
                }
                _ => {}
            }
            prop_assert!(depth <= 2, "too deep in {}", text);
        }
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_leaves_what_was_there() {
    let started = Instant::now();
    let opening = Trace::opening(std::time::UNIX_EPOCH);
    let mut memory = Memory::with_room(opening.len() + 40);
    let file = TraceFile::create(&mut memory, &opening).unwrap();
    let (sink, source) = queue(16);
    for _ in 0..3 {
        assert!(sink.push(TimelineEvent::Cycle(started)).is_ok());
    }
    run(file, source, started, Path::new("trace"));
    assert_eq!(objects(memory.text()).len(), 2);
    assert!(sink.push(TimelineEvent::Cycle(started)).is_err());

    let (timeline, _) = timeline();
    *lock(&timeline.shared.sink) = Some(sink);
    timeline.shared.recording.store(true, Ordering::Relaxed);
    timeline.negotiate_end(&"x".into());
    assert!(
        !timeline.is_recording(),
        "one event finds out, the rest cost nothing"
    );
}

#[test]
fn wherever_the_disk_is_full_the_file_stays_valid() {
    let started = Instant::now();
    let opening = Trace::opening(std::time::UNIX_EPOCH);
    for room in (opening.len() + 5..520_000).step_by(20_011) {
        let mut memory = Memory::with_room(room);
        let file = TraceFile::create(&mut memory, &opening).unwrap();
        let (sink, source) = queue(8192);
        for _ in 0..8192 {
            assert!(sink.push(TimelineEvent::Cycle(started)).is_ok());
        }
        drop(sink);
        run(file, source, started, Path::new("trace"));
        assert!(memory.text().ends_with("}\n]\n"), "room for {room}");
        let count = objects(memory.text()).len();
        assert!(count < 8192, "room for {room} was not too little: {count}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_at_the_start() {
    let scratch = Scratch::new();
    let (timeline, _) = timeline();
    let nowhere = scratch.path().join("no/such/directory.json");
    let error = timeline.start(&nowhere, CycleMarks::Shown).unwrap_err();
    let told = error.to_string();
    assert!(told.starts_with(&format!(
        "cannot write the timeline to `{}`: ",
        nowhere.display()
    )));
    assert!(told.ends_with("; training goes on without it"), "{told}");
    assert!(!timeline.is_recording());
    timeline.stop();
}

/// Prints what an event costs the engine thread; the pause between bursts lets the writer keep up.
#[test]
fn the_cost_of_an_event_is_printed() {
    let scratch = Scratch::new();
    let timeline = Timeline::new();
    let name: Arc<str> = "DistributedOptimizer.layer.17.weight".into();
    let measure = |count: u32| {
        let begin = Instant::now();
        for _ in 0..count {
            std::hint::black_box(&timeline).negotiate_end(&name);
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    };
    let off = measure(1_000_000);
    timeline
        .start(&scratch.join("cost.json"), CycleMarks::Hidden)
        .unwrap();
    let on = measure(60_000);
    timeline.stop();
    println!("one event: {off:.1} ns while off, {on:.0} ns while recording");
    assert!(!timeline.is_recording());
}
