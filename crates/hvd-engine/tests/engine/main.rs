//! Whole engines, one per rank, each used by a thread of its own, over every transport.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[macro_use]
mod jobs;

mod autotune;
mod callback;
mod late_lanes;
mod operations;
mod schedules;
mod sets;
