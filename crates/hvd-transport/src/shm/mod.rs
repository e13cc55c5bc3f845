//! Ranks of one host: bytes through memory that all of them map.
//!
//! One segment per host holds, for each ordered pair of ranks and each lane, a ring that one rank
//! writes and another reads ([`ring`]), and for each rank a doorbell on which it sleeps
//! ([`doorbell`]) and a few slots ([`slots`]) that all others can read while it works on the next
//! ([`shared_slots`]). Nothing is locked; moving bytes makes no system call unless the other end
//! sleeps. Indexes that come from shared memory are checked before they are used, so a peer that
//! writes nonsense causes an error here, never an access out of bounds.

mod doorbell;
mod ring;
#[cfg(test)]
mod ring_tests;
mod rings;
mod segment;
mod shared_slots;
mod slot_wait;
mod slots;
mod transport;

// The test `interleavings` compiles the doorbell with other atomics under this name.
use std::sync::atomic;

pub(crate) use ring::Corrupt;
pub(crate) use rings::Rings;
pub(crate) use segment::{Capacities, Segment};
pub use shared_slots::{Inputs, SharedSlots};
pub(crate) use transport::SharedMemory;
