//! Messages in a stream of bytes: a 32-bit little-endian length, then the message.
//!
//! ```text
//! +--------+--------+--------+--------+----------------------+
//! |        length, little-endian      |  message ...         |
//! +--------+--------+--------+--------+----------------------+
//! ```

use crate::{Error, Result};

/// Longest message that is accepted: a million tensors' names and shapes fit.
pub const LIMIT: usize = 256 << 20;

const HEADER: usize = 4;

/// Appends a frame to `out`; `encode` writes the message.
pub fn append(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let start = out.len();
    out.extend([0; HEADER]);
    encode(out);
    let length = out.len() - start - HEADER;
    let claimed = u32::try_from(length).ok().filter(|_| length <= LIMIT);
    let Some(claimed) = claimed else {
        out.truncate(start);
        return Err(Error::TooLong {
            length,
            limit: LIMIT,
        });
    };
    out[start..start + HEADER].copy_from_slice(&claimed.to_le_bytes());
    Ok(())
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
        let length = u32::from_le_bytes(*header) as usize;
        if length > LIMIT {
            return Err(Error::TooLong {
                length,
                limit: LIMIT,
            });
        }
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

    proptest! {
        #[test]
        fn messages_survive_any_cut_of_the_stream(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
            cut in 1_usize..40,
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                append(&mut stream, |out| out.extend(message)).unwrap();
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
