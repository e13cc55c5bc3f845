//! Testimonies survive the way, stay short, and nonsense harms nobody.

use proptest::prelude::*;

use super::*;
use crate::Error;

fn frame(file: &str, line: u32, function: &str, origin: Origin) -> Frame {
    Frame {
        file: file.to_owned(),
        line,
        function: function.to_owned(),
        origin,
    }
}

fn thread(frames: Vec<Frame>) -> Thread {
    Thread {
        name: "main".to_owned(),
        frames,
    }
}

fn note(name: &str, state: State, ago: u64) -> Note {
    let ago = Some(Duration::from_millis(ago));
    Note {
        name: name.to_owned(),
        kind: OpKind::Allreduce,
        state,
        process_set: ProcessSetId::GLOBAL,
        ago: std::array::from_fn(|phase| ago.filter(|_| phase <= state.phase())),
    }
}

prop_compose! {
    fn any_frame()(file in ".{0,600}", line: u32, function in ".{0,200}", origin in 0..3_usize) -> Frame {
        frame(&file, line, &function, Origin::ALL[origin])
    }
}

prop_compose! {
    fn any_testimony()(
        process: u32,
        unknown in ".{0,400}",
        names in prop::collection::vec((".{0,300}", 0..5_usize, any::<u64>()), 0..100),
        stacks in prop::collection::vec((".{0,200}", prop::collection::vec(any_frame(), 0..60)), 0..8),
    ) -> Testimony {
        let operations = names.iter().map(|(name, state, ago)| note(name, State::ALL[*state], *ago));
        let threads = stacks.into_iter().map(|(name, frames)| Thread { name, frames });
        Testimony { process, unknown, operations: operations.collect(), threads: threads.collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tell_1_every_testimony_is_short_and_can_be_read(testimony in any_testimony()) {
        let bytes = testimony.encode();
        prop_assert!(bytes.len() <= LONGEST);
        let told = Testimony::decode(&bytes).unwrap();
        prop_assert_eq!(told.process, testimony.process);
        prop_assert_eq!(told.operations.len(), testimony.operations.len().min(MOST_OPERATIONS));
        // What was shortened once is told again word for word.
        prop_assert_eq!(&Testimony::decode(&told.encode()).unwrap(), &told);
        let statement = Statement { rank: Rank::new(7), host: "h".to_owned(), testimony: Some(told) };
        let all = vec![statement, Statement { rank: Rank::new(8), host: String::new(), testimony: None }];
        prop_assert_eq!(Statement::decode_all(&Statement::encode_all(&all)).unwrap(), all);
    }

    #[test]
    fn garbage_never_panics(bytes: Vec<u8>) {
        let _ = Testimony::decode(&bytes);
        let _ = Statement::decode_all(&bytes);
    }
}

#[test]
fn ordinary_testimonies_come_back_as_they_were() {
    let testimony = Testimony {
        process: 4711,
        operations: vec![
            note("allreduce.a", State::Done, 12_100),
            note("allreduce.b", State::Negotiating, 300),
        ],
        threads: vec![thread(vec![frame(
            "/x/train.py",
            42,
            "load",
            Origin::Program,
        )])],
        unknown: String::new(),
    };
    assert_eq!(Testimony::decode(&testimony.encode()).unwrap(), testimony);
}

#[test]
fn a_long_message_is_refused_before_it_is_read() {
    let error = Testimony::decode(&vec![0; LONGEST + 1]).unwrap_err();
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
    let testimony = Testimony {
        operations: vec![
            note("old", State::Done, 900),
            note("young", State::Failed, 100),
            note("waiting", State::Negotiating, 50),
        ],
        ..Testimony::default()
    };
    assert_eq!(testimony.last_ended().unwrap().name, "young");
    assert_eq!(testimony.pending().count(), 1);
}
