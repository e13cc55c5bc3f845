//! The crate's ring and doorbell, and what must hold of them.

use std::sync::Arc;

use loom::sync::atomic;
use loom::thread;

#[path = "../../src/shm/doorbell.rs"]
mod doorbell;
#[path = "../../src/shm/ring.rs"]
mod ring;

use atomic::Ordering;
use doorbell::Doorbell;
use ring::{Consumer, Producer, RingLayout};

use crate::os::event::Flag;
use crate::os::memory::{BYTES, CAPACITY, Mapping};

const LAYOUT: RingLayout = RingLayout {
    head: 0,
    tail: 8,
    bytes: BYTES,
    capacity: CAPACITY,
};

/// Writes as much as fits, twice, so that the second write goes over places that were used.
fn push_twice(producer: &mut Producer, bytes: &[u8]) -> usize {
    let first = producer.push(bytes).unwrap();
    first + producer.push(&bytes[first..]).unwrap()
}

/// Reads what is there.
fn pop(consumer: &mut Consumer, into: &mut Vec<u8>) {
    let mut buffer = [0; 4];
    let length = consumer.pop(&mut buffer).unwrap();
    into.extend(&buffer[..length]);
}

#[test]
fn ring_1_2_what_is_read_was_written_and_what_is_overwritten_was_read() {
    loom::model(|| {
        let memory = Arc::new(Mapping::new());
        let mut producer = Producer::new(Arc::clone(&memory), LAYOUT);
        let mut consumer = Consumer::new(memory, LAYOUT);
        let writer = thread::spawn(move || {
            assert!(producer.space().unwrap() <= CAPACITY);
            push_twice(&mut producer, &[1, 2, 3, 4])
        });
        let mut received = Vec::new();
        pop(&mut consumer, &mut received);
        pop(&mut consumer, &mut received);
        let sent = writer.join().unwrap();
        while consumer.available().unwrap() > 0 {
            pop(&mut consumer, &mut received);
        }
        assert_eq!(received, [1, 2, 3, 4][..sent]);
    });
}

#[test]
fn bell_1_a_change_that_is_told_is_never_slept_through() {
    loom::model(|| {
        let memory = Arc::new(Mapping::new());
        let bell = Doorbell::new(Arc::clone(&memory), 0, None);
        let (theirs, ring) = (bell.clone(), Arc::clone(&memory));
        let peer = thread::spawn(move || {
            ring.long(LAYOUT.tail).store(1, Ordering::Release);
            theirs.notify();
        });
        let seen = bell.count();
        let has_work = || memory.long(LAYOUT.tail).load(Ordering::Acquire) == 1;
        assert!(bell.sleep(seen, None, has_work).unwrap());
        assert!(has_work(), "woken for nothing");
        peer.join().unwrap();
    });
}

#[test]
fn bell_2_a_ring_ends_this_sleep_or_the_next() {
    loom::model(|| {
        let bell = Doorbell::new(Arc::new(Mapping::new()), 0, None);
        let seen = bell.count();
        let theirs = bell.clone();
        let peer = thread::spawn(move || theirs.ring());
        assert!(bell.sleep(seen, None, || false).unwrap());
        assert_eq!(bell.count(), seen + 1);
        peer.join().unwrap();
    });
}

#[test]
fn mix_1_a_change_that_is_told_is_never_polled_through() {
    loom::model(|| {
        let (memory, flag) = (Arc::new(Mapping::new()), Arc::new(Flag::new()));
        let bell = Doorbell::new(Arc::clone(&memory), 0, Some(Arc::clone(&flag)));
        let (theirs, ring) = (bell.clone(), Arc::clone(&memory));
        let peer = thread::spawn(move || {
            ring.long(LAYOUT.tail).store(1, Ordering::Release);
            theirs.notify();
        });
        let seen = bell.count();
        let has_work = || memory.long(LAYOUT.tail).load(Ordering::Acquire) == 1;
        bell.sleep_by(seen, has_work, || flag.wait());
        assert!(has_work(), "woken for nothing");
        peer.join().unwrap();
    });
}

#[test]
fn bell_2_a_ring_ends_this_poll_or_the_next() {
    loom::model(|| {
        let flag = Arc::new(Flag::new());
        let bell = Doorbell::new(Arc::new(Mapping::new()), 0, Some(Arc::clone(&flag)));
        let seen = bell.count();
        let theirs = bell.clone();
        let peer = thread::spawn(move || theirs.ring());
        bell.sleep_by(seen, || false, || flag.wait());
        assert_eq!(bell.count(), seen + 1);
        peer.join().unwrap();
    });
}
