//! Messages on a stream: `length u32, little endian | length bytes`.
//!
//! - `FRAME-1` a length above the limit is refused before anything is allocated for it.
//! - `FRAME-2` memory grows with the bytes that arrive, not with the length that was claimed.

use std::io::{self, Read, Write};

use crate::{Error, Result};

/// The longest message of the key-value store.
pub const LIMIT: u32 = 256 * 1024 * 1024;

/// Writes one message.
pub fn write(stream: &mut impl Write, message: &[u8]) -> Result<()> {
    let length = u32::try_from(message.len())
        .ok()
        .filter(|&length| length <= LIMIT)
        .ok_or(Error::TooLong {
            length: message.len() as u64,
            limit: u64::from(LIMIT),
        })?;
    let doing = "sending a message of the key-value store";
    if message.len() <= 1024 {
        // One packet instead of two for the usual small message.
        let frame = [&length.to_le_bytes(), message].concat();
        return stream.write_all(&frame).map_err(Error::io(doing));
    }
    stream
        .write_all(&length.to_le_bytes())
        .map_err(Error::io(doing))?;
    stream.write_all(message).map_err(Error::io(doing))
}

/// Reads one message of at most `limit` bytes; `None` if the stream ended before it began.
pub fn read(stream: &mut impl Read, limit: u32) -> Result<Option<Vec<u8>>> {
    let Some(head) = read_head(stream)? else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(head);
    if length > limit {
        return Err(Error::TooLong {
            length: u64::from(length),
            limit: u64::from(limit),
        });
    }
    let mut message = Vec::new();
    let mut body = stream.by_ref().take(u64::from(length));
    body.read_to_end(&mut message)
        .map_err(Error::io("receiving a message of the key-value store"))?;
    if message.len() < length as usize {
        return Err(cut_short());
    }
    Ok(Some(message))
}

fn read_head(stream: &mut impl Read) -> Result<Option<[u8; 4]>> {
    let mut head = [0; 4];
    let mut filled = 0;
    while filled < head.len() {
        match stream.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(cut_short()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Error::io("receiving a message of the key-value store")(
                    error,
                ));
            }
        }
    }
    Ok(Some(head))
}

fn cut_short() -> Error {
    Error::io("receiving a message of the key-value store")(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_come_back_in_order(messages: Vec<Vec<u8>>) {
            let mut stream = Vec::new();
            for message in &messages {
                write(&mut stream, message).unwrap();
            }
            let mut rest = stream.as_slice();
            for message in &messages {
                prop_assert_eq!(&read(&mut rest, LIMIT).unwrap().unwrap(), message);
            }
            prop_assert!(read(&mut rest, LIMIT).unwrap().is_none());
        }

        #[test]
        fn a_cut_stream_is_an_error_not_a_message(message: Vec<u8>, cut: prop::sample::Index) {
            let mut stream = Vec::new();
            write(&mut stream, &message).unwrap();
            let end = 1 + cut.index(stream.len() - 1);
            prop_assert!(read(&mut &stream[..end], LIMIT).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let _ = read(&mut bytes.as_slice(), 1000);
        }
    }

    #[test]
    fn frame_1_an_oversized_length_is_refused() {
        let error = read(&mut &[0xff; 8][..], LIMIT).unwrap_err();
        assert!(
            matches!(
                error,
                Error::TooLong {
                    length: 0xffff_ffff,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn frame_2_a_claimed_length_allocates_nothing() {
        let mut stream = &[&(LIMIT - 1).to_le_bytes()[..], b"only this"].concat()[..];
        assert!(matches!(read(&mut stream, LIMIT), Err(Error::Io { .. })));
    }
}
