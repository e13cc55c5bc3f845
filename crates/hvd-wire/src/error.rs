//! What can be wrong with bytes.

use hvd_types::UnknownCode;

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The message ends in the middle of a field.
    #[error("message ends early: {needed} more bytes needed, {left} left")]
    Truncated {
        /// Bytes the field needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// Bytes are left over after the last field.
    #[error("{left} bytes left over at the end of a message")]
    Trailing {
        /// Their number.
        left: usize,
    },
    /// A number that stands for nothing.
    #[error(transparent)]
    UnknownCode(#[from] UnknownCode),
    /// A text that is not UTF-8.
    #[error("a name or text in a message is not UTF-8")]
    NotUtf8,
    /// Ranks that are no set, or a list that has not one item for each of them.
    #[error("a list of ranks is empty, out of order, or does not fit what is said about them")]
    BadRanks,
    /// A tuned size that no coordinator chooses.
    #[error("size of {size} bytes, not from {least} to {most}")]
    SizeOutOfRange {
        /// Claimed size.
        size: u64,
        /// Smallest size that is accepted.
        least: u64,
        /// Largest size that is accepted.
        most: u64,
    },
    /// A frame longer than any message.
    #[error("frame of {length} bytes, more than the limit of {limit}")]
    TooLong {
        /// Claimed length.
        length: usize,
        /// Largest length that is accepted.
        limit: usize,
    },
}
