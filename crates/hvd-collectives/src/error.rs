//! What can go wrong in a collective: the transport's failures, and calls that make no sense.
//!
//! The latter are found before the first byte moves, so that the other members never receive a
//! part of a message.

use hvd_types::{DType, Rank};

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a collective did not complete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes could not be moved.
    #[error(transparent)]
    Transport(#[from] hvd_transport::Error),
    /// The caller is not in the group it wants to communicate with.
    #[error("rank {rank} is not one of the {members} members of the group; only members may call")]
    NotAMember {
        /// The caller.
        rank: Rank,
        /// Members of the group.
        members: usize,
    },
    /// A group names a rank that the job does not have.
    #[error("the group names rank {rank}, but the job has only {size} ranks")]
    UnknownRank {
        /// The rank that does not exist.
        rank: Rank,
        /// Ranks in the job.
        size: usize,
    },
    /// A position outside the group, for example as the root of a broadcast.
    #[error("there is no member {index} in a group of {members}")]
    NoSuchMember {
        /// The position asked for.
        index: usize,
        /// Members of the group.
        members: usize,
    },
    /// A buffer ends in the middle of an element.
    #[error("{bytes} bytes are no whole number of {dtype} elements")]
    PartialElement {
        /// Length of the buffer or part.
        bytes: usize,
        /// The type of its elements.
        dtype: DType,
    },
    /// Two lengths that have to agree do not.
    #[error("the {what} should be {expected} long but is {got}")]
    LengthMismatch {
        /// What has the wrong length.
        what: &'static str,
        /// The length that would be right.
        expected: usize,
        /// The length found.
        got: usize,
    },
    /// The lengths of a buffer's parts do not fit the address space.
    #[error("the lengths of the {what} add up to more bytes than there can be")]
    TooLong {
        /// Whose lengths they are.
        what: &'static str,
    },
    /// A type whose elements cannot be multiplied by a factor.
    #[error("{dtype} elements cannot be scaled by {factor}; use a factor of 1 or another type")]
    CannotScale {
        /// The type of the elements.
        dtype: DType,
        /// The factor asked for.
        factor: f64,
    },
    /// A type for which Adasum has no meaning.
    #[error(
        "adasum needs float16, bfloat16, float32 or float64 elements, not {dtype}; \
         convert the tensor or use a sum or an average"
    )]
    NoAdasum {
        /// The type of the elements.
        dtype: DType,
    },
    /// A group that cannot be halved down to single members.
    #[error(
        "adasum needs a power of two of ranks, but the group has {size}; start {below} or {above}"
    )]
    NotAPowerOfTwo {
        /// Members of the group.
        size: usize,
        /// The next power of two below.
        below: usize,
        /// The next power of two above.
        above: usize,
    },
}

/// Fails unless two lengths agree.
pub(crate) fn expect_length(what: &'static str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        Ok(())
    } else {
        Err(Error::LengthMismatch {
            what,
            expected,
            got,
        })
    }
}
