//! Agreement between ranks on what happens next.
//!
//! Rank 0 runs the [`Hub`](hub::Hub) with one [`Coordinator`](coordinator::Coordinator) per process
//! set: pure machines of messages and a given time, without threads, sockets or clocks. In a large
//! job other ranks reach it by way of a [tree](tree::TreePosition) of [`Relay`](relay::Relay)s;
//! which of these a rank is, its [`ControlRole`](role::ControlRole) knows. Every rank, rank 0
//! included, remembers the descriptions that were agreed
//! ([`ResponseCache`](response_cache::ResponseCache)), so that the next time a number stands for a
//! description.

pub(crate) mod agreement;
pub(crate) mod agreement_cache;
pub(crate) mod coordinator;
pub(crate) mod hub;
pub(crate) mod negotiating_rank;
mod pending_tensor;
pub(crate) mod relay;
pub(crate) mod requesters;
pub(crate) mod response_cache;
pub(crate) mod role;
pub(crate) mod session;
pub(crate) mod sets;
pub(crate) mod tree;
pub(crate) mod validate;
