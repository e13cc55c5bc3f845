//! Frames on an async stream: the format and its check of lengths are those of [`hvd_wire::frame`],
//! whose `FRAME-1` and `FRAME-2` hold here too. What is in a frame of a link is in `packet.rs`.

use std::io;

use hvd_wire::frame::{self, HEADER};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Writes one frame with this body.
pub(crate) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    body: &[u8],
    limit: usize,
) -> io::Result<()> {
    let mut whole = Vec::with_capacity(HEADER + body.len());
    frame::append(&mut whole, limit, |out| out.extend(body)).map_err(invalid)?;
    stream.write_all(&whole).await
}

/// Reads the body of the next frame, at most `limit` bytes and nothing beyond it; `None` if the
/// stream ends between two frames.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER];
    if stream.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut header[1..]).await?;
    let length = frame::body_length(header, limit).map_err(invalid)?;
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(body))
}

/// An error that is distinguished from those of the stream by its kind.
pub(super) fn invalid(error: frame::FrameTooLong) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_is_read_to_its_end_and_not_beyond() {
        let mut stream = Vec::new();
        write(&mut stream, b"first", 5).await.unwrap();
        stream.extend(b"rest");
        let mut reader = stream.as_slice();
        assert_eq!(read(&mut reader, 5).await.unwrap().unwrap(), b"first");
        assert_eq!(reader, b"rest");
        assert!(read(&mut &b""[..], 5).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn frame_1_a_length_beyond_the_limit_is_refused_at_both_ends() {
        let mut stream = Vec::new();
        let refused = write(&mut stream, b"longer", 5).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert!(stream.is_empty());
        let refused = read(&mut &[6, 0, 0, 0][..], 5).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn frame_2_a_claimed_length_allocates_nothing() {
        let claimed = u32::MAX.to_le_bytes();
        let mut stream = &[&claimed[..], b"only this"].concat()[..];
        let error = read(&mut stream, usize::MAX).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
