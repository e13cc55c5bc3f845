//! What travels on a link: the body of each frame ([`super::frame`]).
//!
//! ```text
//! kind u8 | channel u32 little-endian | bytes, to the end of the frame
//! ```
//!
//! What the bytes mean is the business of the link's users.

use std::io;

use hvd_wire::frame::{self, FrameTooLong, HEADER};

/// The most bytes a packet may carry: an environment fits many times.
const LIMIT: usize = 16 << 20;

/// Kind and channel.
const PREFIX: usize = 5;

/// Longest body of a frame on a link.
pub(super) const FRAME_LIMIT: usize = PREFIX + LIMIT;

/// One unit of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    /// A message to the other end.
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
    /// The packet as a frame.
    pub(super) fn encode(&self) -> Result<Vec<u8>, FrameTooLong> {
        let (kind, channel, bytes): (u8, u32, &[u8]) = match self {
            Self::Message(bytes) => (1, 0, bytes),
            Self::Open { channel, purpose } => (2, *channel, purpose),
            Self::Data { channel, bytes } => (3, *channel, bytes),
            Self::Credit { channel, bytes } => (4, *channel, &bytes.to_le_bytes()),
            Self::Close { channel } => (5, *channel, &[]),
            Self::Alive => (6, 0, &[]),
        };
        let mut encoded = Vec::with_capacity(HEADER + PREFIX + bytes.len());
        frame::append(&mut encoded, FRAME_LIMIT, |out| {
            out.push(kind);
            out.extend(channel.to_le_bytes());
            out.extend(bytes);
        })?;
        Ok(encoded)
    }

    /// The packet that is the body of a frame.
    pub(super) fn decode(mut body: Vec<u8>) -> io::Result<Self> {
        let Some(&[kind, a, b, c, d]) = body.first_chunk::<PREFIX>() else {
            return Err(damaged("a packet without kind and channel"));
        };
        body.drain(..PREFIX);
        Self::assemble(kind, u32::from_le_bytes([a, b, c, d]), body)
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
            _ => Err(damaged("a packet of unknown kind")),
        }
    }
}

fn damaged(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::frame as link_frame, *};

    fn decode(bytes: &[u8]) -> io::Result<Vec<Packet>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (mut stream, mut packets) = (bytes, Vec::new());
            while let Some(body) = link_frame::read(&mut stream, FRAME_LIMIT).await? {
                packets.push(Packet::decode(body)?);
            }
            Ok(packets)
        })
    }

    fn any_packet() -> impl Strategy<Value = Packet> {
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
    fn the_bytes_of_a_packet() {
        let packet = Packet::Data {
            channel: 7,
            bytes: b"ab".to_vec(),
        };
        assert_eq!(
            packet.encode().unwrap(),
            [7, 0, 0, 0, 3, 7, 0, 0, 0, b'a', b'b']
        );
    }

    #[test]
    fn a_length_that_cannot_be_true_is_not_believed() {
        let error = decode(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().starts_with("frame of 4294967295 bytes"));
        assert!(decode(&[5, 0, 0, 0, 9, 0, 0, 0, 0]).is_err());
        assert!(decode(&[6, 0, 0, 0, 6, 0, 0, 0, 0, 7]).is_err());
        assert!(decode(&[4, 0, 0, 0, 6, 0, 0, 0]).is_err());
        assert!(
            decode(&[5, 0, 0]).is_err() && decode(&[5, 0, 0, 0, 6]).is_err(),
            "a stream that ends inside a frame"
        );
        let too_long = Packet::Message(vec![0; LIMIT + 1]);
        assert!(too_long.encode().is_err());
    }

    proptest! {
        #[test]
        fn packets_come_back(packets in proptest::collection::vec(any_packet(), 0..6)) {
            let bytes: Vec<u8> =
                packets.iter().flat_map(|packet| packet.encode().unwrap()).collect();
            prop_assert_eq!(decode(&bytes).unwrap(), packets);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
        }
    }
}
