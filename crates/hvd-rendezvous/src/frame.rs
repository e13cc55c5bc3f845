//! Frames on a blocking stream: the format and its limit are those of [`hvd_wire::frame`], whose
//! `FRAME-1` and `FRAME-2` hold here too.

use std::io::{self, Read, Write};

pub use hvd_wire::frame::LIMIT;
use hvd_wire::frame::{self, HEADER};

use crate::{Error, Result};

/// Longest body that is copied to be sent together with its header.
const SMALL: usize = 1024;

/// What the key-value store and its clients do with messages.
pub(crate) const SENDING: &str = "sending a message of the key-value store";
pub(crate) const RECEIVING: &str = "receiving a message of the key-value store";

/// Writes one message; `doing` is for the error.
pub fn write(stream: &mut impl Write, message: &[u8], doing: &'static str) -> Result<()> {
    let header = frame::header(message.len(), LIMIT)?;
    if message.len() <= SMALL {
        // One packet instead of two for the usual small message.
        let whole = [&header, message].concat();
        return stream.write_all(&whole).map_err(Error::io(doing));
    }
    stream.write_all(&header).map_err(Error::io(doing))?;
    stream.write_all(message).map_err(Error::io(doing))
}

/// Reads one message of at most `limit` bytes; `None` if the stream ended before it began. `doing`
/// is for the error.
pub fn read(stream: &mut impl Read, limit: usize, doing: &'static str) -> Result<Option<Vec<u8>>> {
    let Some(header) = read_header(stream).map_err(Error::io(doing))? else {
        return Ok(None);
    };
    let length = frame::body_length(header, limit)?;
    let mut message = Vec::new();
    let mut body = stream.by_ref().take(length as u64);
    body.read_to_end(&mut message).map_err(Error::io(doing))?;
    if message.len() < length {
        return Err(Error::io(doing)(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(Some(message))
}

fn read_header(stream: &mut impl Read) -> io::Result<Option<[u8; HEADER]>> {
    let mut header = [0; HEADER];
    let mut filled = 0;
    while filled < header.len() {
        match stream.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(header))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DOING: &str = "testing";

    proptest! {
        #[test]
        fn messages_come_back_in_order(messages: Vec<Vec<u8>>) {
            let mut stream = Vec::new();
            for message in &messages {
                write(&mut stream, message, DOING).unwrap();
            }
            let mut rest = stream.as_slice();
            for message in &messages {
                prop_assert_eq!(&read(&mut rest, LIMIT, DOING).unwrap().unwrap(), message);
            }
            prop_assert!(read(&mut rest, LIMIT, DOING).unwrap().is_none());
        }

        #[test]
        fn a_cut_stream_is_an_error_not_a_message(message: Vec<u8>, cut: prop::sample::Index) {
            let mut stream = Vec::new();
            write(&mut stream, &message, DOING).unwrap();
            let end = 1 + cut.index(stream.len() - 1);
            prop_assert!(read(&mut &stream[..end], LIMIT, DOING).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let _ = read(&mut bytes.as_slice(), 1000, DOING);
        }
    }

    #[test]
    fn frame_1_an_oversized_length_is_refused() {
        let error = read(&mut &[0xff; 8][..], LIMIT, DOING).unwrap_err();
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
        let header = frame::header(LIMIT - 1, LIMIT).unwrap();
        let mut stream = &[&header[..], b"only this"].concat()[..];
        assert!(matches!(
            read(&mut stream, LIMIT, DOING),
            Err(Error::Io { .. })
        ));
    }
}
