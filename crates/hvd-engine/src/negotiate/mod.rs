//! Agreement between ranks on what happens next.
//!
//! Rank 0 runs the [`Hub`](hub::Hub) with one [`Coordinator`](coordinator::Coordinator) per process
//! set: pure machines of messages and a given time, without threads, sockets or clocks. In a large
//! job other ranks speak to it by way of a [tree](tree::Place) of [`Relay`](relay::Relay)s; which
//! of these a rank is, its [`Voice`](voice::Voice) knows. Every
//! rank, rank 0 included, remembers the descriptions that were agreed
//! ([`KnownTensors`](known::KnownTensors)), so that the next time a number stands for a
//! description.

pub(crate) mod agreement;
pub(crate) mod askers;
pub(crate) mod cache;
pub(crate) mod coordinator;
pub(crate) mod hub;
pub(crate) mod known;
pub(crate) mod relay;
pub(crate) mod sets;
pub(crate) mod tree;
pub(crate) mod validate;
pub(crate) mod voice;
mod waiting;
