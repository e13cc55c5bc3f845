//! What travels on a link, as bytes.
//!
//! ```text
//! kind u8 | channel u32 little-endian | length u32 little-endian | that many bytes
//! ```
//!
//! Lengths are checked before they are believed. What the bytes mean is the business of whoever
//! uses the link.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The most bytes a frame may carry: an environment fits many times.
const LIMIT: u32 = 16 << 20;

const HEADER: usize = 9;

/// One unit of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    /// A message to whoever holds the other end.
    Message(Vec<u8>),
    /// A new channel, and what it is for.
    Open { channel: u32, purpose: Vec<u8> },
    /// Bytes of a channel.
    Data { channel: u32, bytes: Vec<u8> },
    /// The channel's receiver has used so many bytes: as many more may be sent.
    Credit { channel: u32, bytes: u32 },
    /// No more bytes in this direction.
    Close { channel: u32 },
    /// A sign of life.
    Alive,
}

impl Packet {
    /// The frame as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, channel, bytes): (u8, u32, &[u8]) = match self {
            Self::Message(bytes) => (1, 0, bytes),
            Self::Open { channel, purpose } => (2, *channel, purpose),
            Self::Data { channel, bytes } => (3, *channel, bytes),
            Self::Credit { channel, bytes } => (4, *channel, &bytes.to_le_bytes()),
            Self::Close { channel } => (5, *channel, &[]),
            Self::Alive => (6, 0, &[]),
        };
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut encoded = Vec::with_capacity(HEADER + bytes.len());
        encoded.push(kind);
        encoded.extend(channel.to_le_bytes());
        encoded.extend(length.to_le_bytes());
        encoded.extend(bytes);
        encoded
    }

    /// Reads the next frame; `None` if the stream ends between two frames.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if stream.read(&mut header[..1]).await? == 0 {
            return Ok(None);
        }
        stream.read_exact(&mut header[1..]).await?;
        let [kind, c0, c1, c2, c3, l0, l1, l2, l3] = header;
        let channel = u32::from_le_bytes([c0, c1, c2, c3]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length > LIMIT {
            return Err(damaged("a frame is too long"));
        }
        let mut bytes = vec![0; length as usize];
        stream.read_exact(&mut bytes).await?;
        Self::assemble(kind, channel, bytes).map(Some)
    }

    fn assemble(kind: u8, channel: u32, bytes: Vec<u8>) -> io::Result<Self> {
        match kind {
            1 => Ok(Self::Message(bytes)),
            2 => Ok(Self::Open {
                channel,
                purpose: bytes,
            }),
            3 => Ok(Self::Data { channel, bytes }),
            4 => match <[u8; 4]>::try_from(bytes) {
                Ok(bytes) => Ok(Self::Credit {
                    channel,
                    bytes: u32::from_le_bytes(bytes),
                }),
                Err(_) => Err(damaged("a credit is not four bytes")),
            },
            5 if bytes.is_empty() => Ok(Self::Close { channel }),
            6 if bytes.is_empty() => Ok(Self::Alive),
            _ => Err(damaged("a frame of unknown kind")),
        }
    }
}

fn damaged(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8]) -> io::Result<Vec<Packet>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (mut stream, mut frames) = (bytes, Vec::new());
            while let Some(frame) = Packet::read(&mut stream).await? {
                frames.push(frame);
            }
            Ok(frames)
        })
    }

    fn any_frame() -> impl Strategy<Value = Packet> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        prop_oneof![
            bytes().prop_map(Packet::Message),
            (any::<u32>(), bytes())
                .prop_map(|(channel, purpose)| Packet::Open { channel, purpose }),
            (any::<u32>(), bytes()).prop_map(|(channel, bytes)| Packet::Data { channel, bytes }),
            any::<(u32, u32)>().prop_map(|(channel, bytes)| Packet::Credit { channel, bytes }),
            any::<u32>().prop_map(|channel| Packet::Close { channel }),
            Just(Packet::Alive),
        ]
    }

    #[test]
    fn a_length_that_cannot_be_true_is_not_believed() {
        let error = decode(&[1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
        assert_eq!(error.to_string(), "a frame is too long");
        assert!(decode(&[9, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(decode(&[6, 0, 0, 0, 0, 1, 0, 0, 0, 7]).is_err());
        assert!(
            decode(&[1, 0, 0]).is_err(),
            "a stream that ends inside a frame"
        );
    }

    proptest! {
        #[test]
        fn frames_come_back(frames in proptest::collection::vec(any_frame(), 0..6)) {
            let bytes: Vec<u8> = frames.iter().flat_map(Packet::encode).collect();
            prop_assert_eq!(decode(&bytes).unwrap(), frames);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
        }
    }
}
