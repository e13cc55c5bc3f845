//! Dumps as several versions of Python write them.

use std::fmt::Write as _;

use super::*;

fn code() -> CodeOrigins {
    CodeOrigins {
        main_thread: 0x7f12_3456_7740,
        horovod: vec!["/venv/lib/python3.11/site-packages/horovod/".to_owned()],
        libraries: vec!["/usr/lib/python3.11/".to_owned()],
    }
}

fn summary(thread: &ThreadStack) -> Vec<(String, Origin)> {
    let frame = |frame: &StackFrame| (frame.to_string(), frame.origin);
    thread.frames.iter().map(frame).collect()
}

#[test]
fn python_3_9_to_3_13_with_the_main_thread_last() {
    let dump = "\
Thread 0x00007f1234500640 (most recent call first):
  File \"/usr/lib/python3.11/threading.py\", line 324 in wait
  File \"/home/u/loader.py\", line 7 in run

Thread 0x00007f1234567740 (most recent call first):
  File \"/venv/lib/python3.11/site-packages/horovod/common/handles.py\", line 9 in synchronize
  File \"/venv/lib/python3.11/site-packages/torch/x.py\", line 3 in step
  File \"/home/u/train.py\", line 80 in main
  File \"<frozen runpy>\", line 198 in _run_module_as_main
";
    let threads = code().parse(dump);
    assert_eq!(threads.len(), 2);
    assert_eq!(threads[0].name, "MainThread");
    assert_eq!(
        summary(&threads[0]),
        [
            ("handles.py:9 in synchronize".to_owned(), Origin::Horovod),
            ("x.py:3 in step".to_owned(), Origin::Library),
            ("train.py:80 in main".to_owned(), Origin::Program),
            (
                "<frozen runpy>:198 in _run_module_as_main".to_owned(),
                Origin::Library
            ),
        ]
    );
    assert_eq!(threads[1].name, "thread 0x7f1234500640");
    assert_eq!(threads[1].position().unwrap().here.line, 7);
}

#[test]
fn python_3_14_with_names_and_remarks() {
    let dump = "\
Current thread 0x00007f1234567740 [python3] (most recent call first):
  Garbage-collecting
  File \"<string>\", line 4 in <module>
  <truncated rest of calls>

Thread 0x00007f1234500640 [Thread-1 (work)] (most recent call first):
  <no Python frame>
";
    let threads = code().parse(dump);
    assert_eq!(threads[0].name, "MainThread");
    assert_eq!(
        summary(&threads[0]),
        [("<string>:4 in <module>".to_owned(), Origin::Program)]
    );
    assert_eq!(threads[1].name, "Thread-1 (work)");
    assert_eq!(threads[1].frames, []);
}

#[test]
fn odd_names_and_numbers() {
    let dump = "\
Thread 0x1 (most recent call first):
  File \"/a \\\"b\\\", line 1 in x/\\u00e9.py\", line 12 in f in g
  File \"???\", line ??? in ???
  File ???
";
    let threads = code().parse(dump);
    let frames = &threads[0].frames;
    assert_eq!(frames.len(), 2);
    assert!(frames[0].file.ends_with("\\u00e9.py"), "{:?}", frames[0]);
    assert_eq!(
        (frames[0].line, frames[0].function.as_str()),
        (12, "f in g")
    );
    assert_eq!((frames[1].line, frames[1].function.as_str()), (0, "???"));
}

#[test]
fn what_is_no_dump_has_no_threads() {
    for text in [
        "",
        "<Cannot show all threads while the GIL is disabled>\n",
        "Stack (most recent call first):\n  File \"x.py\", line 1 in f\n",
        "Thread zzz (most recent call first):\n",
    ] {
        assert_eq!(code().parse(text), [], "{text}");
    }
}

#[test]
fn endless_dumps_are_cut_and_the_main_thread_stays() {
    let mut dump = String::new();
    for thread in 0..100 {
        let _ = writeln!(dump, "Thread {thread:#x} (most recent call first):");
        dump += &"  File \"x.py\", line 1 in f\n".repeat(100);
    }
    dump += "Thread 0x00007f1234567740 (most recent call first):\n  File \"t.py\", line 5 in m\n";
    let threads = code().parse(&dump);
    assert_eq!(threads.len(), MOST_THREADS);
    assert_eq!(threads[0].frames[0].line, 5);
    assert!(threads[1..].iter().all(|it| it.frames.len() == MOST_FRAMES));
}
