//! Steps that are always the same need no negotiation.
//!
//! When the same tensors have come for some steps ([`rhythm`], rank 0), rank 0 proposes a plan:
//! operations in a fixed order, over and over ([`conductor`]). From then on a rank that has all
//! tensors of the next operation calls that out to the others with a note, and executes it when
//! everybody has ([`roll_call`], [`course`]). Small tensors travel in the notes themselves.
//!
//! Whatever does not fit ends the plan: another tensor or process set, a join, a shutdown, or a
//! tensor that others miss for too long. The rank that notices calls for nothing more and tells
//! rank 0; rank 0 tells all; each answers how far it has called; operations that all have called
//! for are executed, the rest is negotiated as ever.
//!
//! - `PLAN-1` an operation is executed by all ranks or by none: it begins when every rank has called
//!   for it, and what one has called for is never taken back before the plan's end is agreed.
//! - `PLAN-2` the end is the least first operation that some rank has not called for. All ranks
//!   have called for everything before it, so all of that is executed, without waiting for
//!   anybody's program; and nobody can have executed anything behind it.
//! - `PLAN-3` what was announced to rank 0 before its sender knew of the plan is forgotten by rank 0
//!   and belongs to the plan, or to what is announced again after it.
//! - `PLAN-4` nobody begins an operation before its own notes have left: in the middle of one a rank
//!   sends no notes, and those who lack them could not begin.

pub(crate) mod conductor;
pub(crate) mod course;
pub(crate) mod rhythm;
pub(crate) mod roll_call;
