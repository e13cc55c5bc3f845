//! Snapshots survive a round trip, stay short, and malformed bytes are refused.

use proptest::prelude::*;

use super::*;
use crate::Error;

fn frame(file: &str, line: u32, function: &str, origin: Origin) -> StackFrame {
    StackFrame {
        file: file.to_owned(),
        line,
        function: function.to_owned(),
        origin,
    }
}

fn thread(frames: Vec<StackFrame>) -> ThreadStack {
    ThreadStack {
        name: "main".to_owned(),
        frames,
    }
}

fn operation(name: &str, state: OperationState, ago: u64) -> OperationStatus {
    let ago = Some(Duration::from_millis(ago));
    OperationStatus {
        name: name.to_owned(),
        kind: OpKind::Allreduce,
        state,
        process_set: ProcessSetId::GLOBAL,
        ago: std::array::from_fn(|phase| ago.filter(|_| phase <= state.phase())),
    }
}

prop_compose! {
    fn any_frame()(file in ".{0,600}", line: u32, function in ".{0,200}", origin in 0..3_usize) -> StackFrame {
        frame(&file, line, &function, Origin::ALL[origin])
    }
}

prop_compose! {
    fn any_snapshot()(
        process: u32,
        wires in ".{0,400}",
        unknown in ".{0,400}",
        names in prop::collection::vec((".{0,300}", 0..5_usize, any::<u64>()), 0..100),
        stacks in prop::collection::vec((".{0,200}", prop::collection::vec(any_frame(), 0..60)), 0..8),
    ) -> RankSnapshot {
        let operations = names.iter().map(|(name, state, ago)| operation(name, OperationState::ALL[*state], *ago));
        let threads = stacks.into_iter().map(|(name, frames)| ThreadStack { name, frames });
        RankSnapshot { process, wires, unknown, operations: operations.collect(), threads: threads.collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn snap_1_every_snapshot_is_short_and_can_be_read(snapshot in any_snapshot()) {
        let bytes = snapshot.encode();
        prop_assert!(bytes.len() <= MAX_SNAPSHOT_BYTES);
        let decoded = RankSnapshot::decode(&bytes).unwrap();
        prop_assert_eq!(decoded.process, snapshot.process);
        prop_assert_eq!(decoded.operations.len(), snapshot.operations.len().min(MAX_OPERATIONS));
        // What was shortened once is decoded again word for word.
        prop_assert_eq!(&RankSnapshot::decode(&decoded.encode()).unwrap(), &decoded);
        let report = RankReport { rank: Rank::new(7), host: "h".to_owned(), snapshot: Some(decoded) };
        let all = vec![report, RankReport { rank: Rank::new(8), host: String::new(), snapshot: None }];
        prop_assert_eq!(RankReport::decode_all(&RankReport::encode_all(&all)).unwrap(), all);
    }

    #[test]
    fn garbage_never_panics(bytes: Vec<u8>) {
        let _ = RankSnapshot::decode(&bytes);
        let _ = RankReport::decode_all(&bytes);
    }
}

#[test]
fn ordinary_snapshots_come_back_as_they_were() {
    let snapshot = RankSnapshot {
        process: 4711,
        wires: "shared memory".to_owned(),
        operations: vec![
            operation("allreduce.a", OperationState::Done, 12_100),
            operation("allreduce.b", OperationState::Negotiating, 300),
        ],
        threads: vec![thread(vec![frame(
            "/x/train.py",
            42,
            "load",
            Origin::Program,
        )])],
        unknown: String::new(),
    };
    assert_eq!(RankSnapshot::decode(&snapshot.encode()).unwrap(), snapshot);
}

#[test]
fn a_long_message_is_refused_before_it_is_read() {
    let error = RankSnapshot::decode(&vec![0; MAX_SNAPSHOT_BYTES + 1]).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }));
}

#[test]
fn the_users_own_frames_come_first() {
    let user = frame("/home/u/train.py", 42, "load_batch", Origin::Program);
    let main = frame("/home/u/train.py", 80, "main", Origin::Program);
    let library = frame(
        "/usr/lib/python3.11/threading.py",
        324,
        "wait",
        Origin::Library,
    );
    let ours = frame(
        "/x/horovod/common/handles.py",
        9,
        "synchronize",
        Origin::Horovod,
    );

    let stack = thread(vec![user.clone(), main.clone()]);
    assert_eq!(
        stack.position().unwrap().to_string(),
        "train.py:42 in load_batch (called from train.py:80 in main)"
    );
    let stack = thread(vec![library.clone(), user.clone(), library.clone(), main]);
    assert_eq!(
        stack.position().unwrap().to_string(),
        "train.py:42 in load_batch (inside threading.py:324 in wait; called from train.py:80 in main)"
    );
    let stack = thread(vec![ours, user]);
    let position = stack.position().unwrap();
    assert!(position.is_in_horovod());
    assert_eq!(position.here.function, "load_batch");
    assert_eq!(thread(vec![library]).position().unwrap().here.line, 324);
    assert_eq!(thread(vec![]).position(), None);
}

#[test]
fn a_file_called_init_is_told_with_its_package() {
    let init = frame("/a/pkg/__init__.py", 1, "f", Origin::Program);
    assert_eq!(init.short_file(), "pkg/__init__.py");
    assert_eq!(
        frame("<string>", 3, "f", Origin::Program).short_file(),
        "<string>"
    );
    assert_eq!(
        frame("t.py", 3, "f", Origin::Program).to_string(),
        "t.py:3 in f"
    );
}

#[test]
fn the_last_operation_that_ended_is_the_youngest() {
    let snapshot = RankSnapshot {
        operations: vec![
            operation("old", OperationState::Done, 900),
            operation("young", OperationState::Failed, 100),
            operation("waiting", OperationState::Negotiating, 50),
        ],
        ..RankSnapshot::default()
    };
    assert_eq!(snapshot.last_ended().unwrap().name, "young");
    assert_eq!(snapshot.pending().count(), 1);
}
