//! Agreement between ranks on what happens next.
//!
//! Rank 0 runs the [`Hub`](hub::Hub) with one [`Coordinator`](coordinator::Coordinator) per process
//! set: pure machines of messages and a given time, without threads, sockets or clocks. Every rank, rank 0 included, remembers the
//! descriptions that were agreed ([`KnownTensors`](known::KnownTensors)), so that the next time a
//! number stands for a description.

pub(crate) mod agreement;
pub(crate) mod cache;
pub(crate) mod coordinator;
pub(crate) mod hub;
pub(crate) mod known;
pub(crate) mod sets;
pub(crate) mod validate;
mod waiting;
