//! The negotiation without an engine: how ranks agree, for a caller that moves the messages and
//! owns the clock.
//!
//! `hvd-simulate` runs thousands of ranks on it. Programs that train use [`Engine`](crate::Engine)
//! and nothing of this; it may change at any time.

pub use crate::negotiate::negotiating_rank::{NegotiatingRank, OutgoingMessage};
pub use crate::schedule::ready_barrier::{BarrierStep, ReadyBarrier};
