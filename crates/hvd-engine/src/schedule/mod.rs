//! Steps that are always the same need no negotiation.
//!
//! When the same tensors have come for some steps ([`detector`], rank 0), rank 0 proposes a
//! schedule: operations in a fixed order, over and over ([`coordinator`]). From then on a rank that
//! has all tensors of the next operation calls that out to the others with a notice, and executes
//! it when all ranks have ([`runner`], with [`ready_barrier`] and [`progress`]). Small tensors
//! travel in the notices themselves.
//!
//! Whatever does not fit ends the schedule: another tensor or process set, a join, a shutdown, or a
//! tensor that others miss for too long. The rank that detects it calls for nothing more and
//! informs rank 0; rank 0 halts all; each answers how far it has called; operations that all have
//! called for are executed, the rest is negotiated as ever.
//!
//! - `SCHEDULE-1` an operation is executed by all ranks or by none: it begins when every rank has
//!   called for it, and what one has called for is never taken back before the schedule's end is
//!   agreed.
//! - `SCHEDULE-2` the end is the least first operation that some rank has not called for. All ranks
//!   have called for everything before it, so all of that is executed, without waiting for
//!   a program; and no rank can have executed anything behind it.
//! - `SCHEDULE-3` what was announced to rank 0 before its sender knew of the schedule is forgotten
//!   by rank 0 and belongs to the schedule, or to what is announced again after it.
//! - `SCHEDULE-4` no rank begins an operation before its own notices have left: in the middle of
//!   one a rank sends no notices, and ranks that lack them could not begin.

pub(crate) mod coordinator;
pub(crate) mod detector;
pub(crate) mod progress;
pub(crate) mod ready_barrier;
pub(crate) mod runner;
