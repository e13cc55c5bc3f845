//! The one frame format: a 32-bit little-endian length, then that many bytes.
//!
//! ```text
//! +--------+--------+--------+--------+----------------------+
//! |        length, little-endian      |  body ...            |
//! +--------+--------+--------+--------+----------------------+
//! ```
//!
//! Used by the engine's control lane ([`append`], [`Assembler`]), by the key-value store and the
//! debug socket (blocking, `hvd-rendezvous/src/frame.rs`) and by the launcher's links (async,
//! `hvd-launch/src/link/frame.rs`). What a body means is its user's business. Does no I/O.
//!
//! - `FRAME-1` a length above the limit is refused, when sent and when received, before anything is
//!   allocated for it: [`header`] and [`body_length`] are the only places that turn a length into
//!   bytes and back.
//! - `FRAME-2` memory grows with the bytes that arrive, not with the length that was claimed.

use crate::{Error, Result};

/// Longest body that is accepted, unless a user sets less: a million tensors' names and shapes fit.
pub const LIMIT: usize = 256 << 20;

/// Bytes before the body.
pub const HEADER: usize = 4;

/// A body that is longer, or claims to be longer, than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("frame of {length} bytes, more than the limit of {limit}")]
pub struct FrameTooLong {
    /// Its length.
    pub length: usize,
    /// The most that is allowed.
    pub limit: usize,
}

impl From<FrameTooLong> for Error {
    fn from(FrameTooLong { length, limit }: FrameTooLong) -> Self {
        Self::TooLong { length, limit }
    }
}

/// The header of a frame whose body has `length` bytes.
pub fn header(length: usize, limit: usize) -> std::result::Result<[u8; HEADER], FrameTooLong> {
    let claimed = u32::try_from(length).ok().filter(|_| length <= limit);
    let claimed = claimed.ok_or(FrameTooLong { length, limit })?;
    Ok(claimed.to_le_bytes())
}

/// The length of the body that a header announces.
pub fn body_length(header: [u8; HEADER], limit: usize) -> std::result::Result<usize, FrameTooLong> {
    let length = u32::from_le_bytes(header) as usize;
    if length > limit {
        return Err(FrameTooLong { length, limit });
    }
    Ok(length)
}

/// Appends a frame to `out`; `encode` writes the body, of at most `limit` bytes. `out` is as it was
/// if that is too long.
pub fn append(
    out: &mut Vec<u8>,
    limit: usize,
    encode: impl FnOnce(&mut Vec<u8>),
) -> std::result::Result<(), FrameTooLong> {
    let start = out.len();
    out.extend([0; HEADER]);
    encode(out);
    match header(out.len() - start - HEADER, limit) {
        Ok(header) => {
            out[start..start + HEADER].copy_from_slice(&header);
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// Takes frames out of a stream that arrives in pieces. Memory grows with the bytes that have
/// arrived, never with a length that is only claimed.
#[derive(Debug, Default)]
pub struct Assembler {
    bytes: Vec<u8>,
    /// Bytes at the front that have been handed out already.
    used: usize,
}

impl Assembler {
    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.used);
        self.used = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if it is there.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>> {
        let unread = &self.bytes[self.used..];
        let Some((header, rest)) = unread.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = body_length(*header, LIMIT)?;
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.used + HEADER;
        self.used = start + length;
        Ok(Some(&self.bytes[start..start + length]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_claimed_length_beyond_the_limit_is_refused_at_once() {
        let mut assembler = Assembler::default();
        assembler.push(&u32::MAX.to_le_bytes());
        let error = assembler.next_message().unwrap_err();
        assert_eq!(
            error,
            Error::TooLong {
                length: u32::MAX as usize,
                limit: LIMIT
            }
        );
    }

    #[test]
    fn the_bytes_of_a_frame() {
        let mut out = vec![9];
        append(&mut out, LIMIT, |out| out.extend(b"abc")).unwrap();
        assert_eq!(out, [9, 3, 0, 0, 0, b'a', b'b', b'c']);
        assert_eq!(body_length([3, 0, 0, 0], 3), Ok(3));
    }

    #[test]
    fn frame_1_a_body_beyond_the_limit_is_refused_at_both_ends() {
        let too_long = FrameTooLong {
            length: 4,
            limit: 3,
        };
        let mut out = vec![9];
        let refused = append(&mut out, 3, |out| out.extend(b"abcd"));
        assert_eq!(refused, Err(too_long));
        assert_eq!(out, [9], "nothing half-written is left");
        assert_eq!(body_length([4, 0, 0, 0], 3), Err(too_long));
        let refused = header(usize::MAX, usize::MAX);
        assert!(refused.is_err(), "more than a header can say");
    }

    proptest! {
        #[test]
        fn messages_survive_any_cut_of_the_stream(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
            cut in 1_usize..40,
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                append(&mut stream, LIMIT, |out| out.extend(message)).unwrap();
            }
            let mut assembler = Assembler::default();
            let mut received = Vec::new();
            for piece in stream.chunks(cut) {
                assembler.push(piece);
                while let Some(message) = assembler.next_message().unwrap() {
                    received.push(message.to_vec());
                }
            }
            prop_assert_eq!(received, messages);
        }
    }
}
