//! A ring's bytes in and out, nonsense from the other end, and two threads at full speed. In a file
//! of their own because the test `interleavings` compiles `ring.rs` over other memory.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::ring::{Consumer, Corrupt, Producer, RingLayout};
use crate::os::memory::{self, Mapping};

fn ring(capacity: usize) -> (Producer, Consumer, Arc<Mapping>) {
    let file = memory::create("hvd-test", 4096 + capacity).unwrap();
    let mapping = Arc::new(Mapping::new(file.as_fd()).unwrap());
    let layout = RingLayout {
        head: 0,
        tail: 128,
        bytes: 4096,
        capacity,
    };
    let producer = Producer::new(Arc::clone(&mapping), layout);
    (
        producer,
        Consumer::new(Arc::clone(&mapping), layout),
        mapping,
    )
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in(steps in prop::collection::vec((0..90_usize, 0..90_usize), 0..60)) {
        let (mut producer, mut consumer, _memory) = ring(64);
        let mut next = 0_u8;
        let mut expected = std::collections::VecDeque::new();
        for (put, take) in steps {
            let bytes: Vec<u8> = (0..put).map(|step| next.wrapping_add(step.to_le_bytes()[0])).collect();
            let pushed = producer.push(&bytes).unwrap();
            prop_assert_eq!(pushed, put.min(64 - expected.len()));
            expected.extend(&bytes[..pushed]);
            next = next.wrapping_add(pushed.to_le_bytes()[0]);

            let mut buffer = vec![0; take];
            let popped = consumer.pop(&mut buffer).unwrap();
            prop_assert_eq!(popped, take.min(expected.len()));
            let wanted: Vec<u8> = expected.drain(..popped).collect();
            prop_assert_eq!(&buffer[..popped], &wanted);
            prop_assert_eq!(consumer.available().unwrap(), expected.len());
            prop_assert_eq!(producer.space().unwrap(), 64 - expected.len());
        }
    }
}

#[test]
fn ring_3_nonsense_from_the_other_end_is_reported() {
    let (mut producer, mut consumer, memory) = ring(64);
    producer.push(&[1; 64]).unwrap();
    for tail in [65, u64::MAX, 1 << 63] {
        memory.long(128).store(tail, Ordering::Relaxed);
        assert_eq!(consumer.pop(&mut [0; 8]), Err(Corrupt), "tail {tail}");
    }
    for head in [65, u64::MAX, 1 << 63] {
        memory.long(0).store(head, Ordering::Relaxed);
        assert_eq!(producer.push(&[1]), Err(Corrupt), "head {head}");
    }
}

#[test]
fn two_threads_move_megabytes_through_a_tiny_ring() {
    const TOTAL: usize = 4 << 20;
    let (mut producer, mut consumer, _memory) = ring(256);
    let writer = std::thread::Builder::new()
        .name("hvd-test-writer".into())
        .spawn(move || {
            let bytes: Vec<u8> = (0..TOTAL).map(pattern).collect();
            let mut sent = 0;
            while sent < TOTAL {
                let end = TOTAL.min(sent + 1 + sent % 300);
                match producer.push(&bytes[sent..end]).unwrap() {
                    0 => std::thread::yield_now(),
                    length => sent += length,
                }
            }
        })
        .unwrap();
    let (mut received, mut buffer) = (0, [0; 300]);
    while received < TOTAL {
        let wanted = 1 + received % 299;
        let length = consumer.pop(&mut buffer[..wanted]).unwrap();
        for (index, byte) in buffer[..length].iter().enumerate() {
            assert_eq!(*byte, pattern(received + index));
        }
        received += length;
        if length == 0 {
            std::thread::yield_now();
        }
    }
    writer.join().unwrap();
}

fn pattern(index: usize) -> u8 {
    (index ^ (index >> 8) ^ (index >> 16)).to_le_bytes()[0]
}
