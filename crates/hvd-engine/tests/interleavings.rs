//! The flight recorder's version lock in every order that its threads and the memory model allow.
//!
//! The file is the engine's own, compiled with the atomics of loom, which remembers every store
//! that a load may see. A record has two words here, so that all orders can be tried.

use loom::sync::Arc;
use loom::sync::atomic;
use loom::thread;

#[path = "../src/recorder/version_lock.rs"]
mod version_lock;

use version_lock::VersionLock;

/// Writes a record whose words are both `value`.
fn write(lock: &VersionLock<2>, value: u64) {
    let version = lock.enter();
    lock.put(0, value);
    lock.put(1, value);
    lock.leave(version);
}

#[test]
fn a_copy_is_never_half_of_one_record_and_half_of_another() {
    loom::model(|| {
        let lock = Arc::new(VersionLock::<2>::default());
        let theirs = Arc::clone(&lock);
        let reader = thread::spawn(move || {
            if let Some([first, second]) = theirs.copy() {
                assert_eq!(first, second, "a torn copy was kept");
            }
        });
        write(&lock, 1);
        write(&lock, 2);
        reader.join().unwrap();
        assert_eq!(lock.copy(), Some([2, 2]));
    });
}

#[test]
fn a_reader_that_knows_of_a_record_sees_it() {
    loom::model(|| {
        let lock = Arc::new(VersionLock::<2>::default());
        let theirs = Arc::clone(&lock);
        let writer = thread::spawn(move || {
            assert!(!theirs.is_used());
            write(&theirs, 1);
            assert_eq!(theirs.get(0), 1);
        });
        writer.join().unwrap();
        assert_eq!(lock.copy(), Some([1, 1]));
    });
}
