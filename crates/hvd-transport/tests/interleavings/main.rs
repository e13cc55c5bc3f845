//! Shared memory's ring and doorbell in every order that their threads and the memory model allow.
//!
//! `shm.rs` compiles the crate's own files over the memory and the futex of `os.rs`, which loom
//! watches: two threads at the same byte, one of them writing, fail the test, and so does a sleeper
//! that is never woken.

#![deny(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod os;
mod shm;
