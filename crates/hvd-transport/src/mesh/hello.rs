//! What is said on a connection between ranks right after the handshake.
//!
//! ```text
//! connector   rank u32 | generation u64 | number u8, little endian   ->
//!             <-   verdict u8: 0 welcome, 1 another generation, 2 not expected   acceptor
//! ```
//!
//! The number tells the connections of one lane apart.

use std::io::{self, Read, Write};

use hvd_rendezvous::Purpose;
use hvd_types::Rank;

use crate::{Error, Result};

const WELCOME: u8 = 0;
const OTHER_GENERATION: u8 = 1;

/// Whom an acceptor lets in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// The acceptor's own rank; higher ones connect to it.
    pub(super) rank: Rank,
    pub(super) size: u32,
    pub(super) generation: u64,
}

/// Introduces `rank` to the acceptor.
pub(super) fn say(
    stream: &mut (impl Read + Write),
    rank: Rank,
    generation: u64,
    number: u8,
) -> Result<()> {
    let doing = "introducing this rank to another";
    let mut hello = rank.number().to_le_bytes().to_vec();
    hello.extend(generation.to_le_bytes());
    hello.push(number);
    stream.write_all(&hello).map_err(Error::io(doing))?;
    let mut verdict = [0];
    stream.read_exact(&mut verdict).map_err(Error::io(doing))?;
    match verdict {
        [WELCOME] => Ok(()),
        [OTHER_GENERATION] => Err(refusal(
            "the other rank was initialised another number of times than this one",
        )),
        _ => Err(refusal("the other rank does not expect this one")),
    }
}

fn refusal(text: &'static str) -> Error {
    Error::io("introducing this rank to another")(io::Error::other(text))
}

/// Hears who the connector is, and the connection's number; `None` if it is nobody who is expected
/// here.
pub(super) fn hear(
    stream: &mut (impl Read + Write),
    purpose: Purpose,
    expected: Expected,
) -> io::Result<Option<(Rank, u8)>> {
    let mut hello = [0; 13];
    stream.read_exact(&mut hello)?;
    let [a, b, c, d, generation @ .., number] = hello;
    let rank = Rank::new(u32::from_le_bytes([a, b, c, d]));
    let verdict = expected.judge(rank, u64::from_le_bytes(generation), purpose);
    stream.write_all(&[verdict])?;
    Ok((verdict == WELCOME).then_some((rank, number)))
}

impl Expected {
    fn judge(self, rank: Rank, generation: u64, purpose: Purpose) -> u8 {
        if generation != self.generation {
            return OTHER_GENERATION;
        }
        let fits = match purpose {
            Purpose::Lifeline => self.rank == Rank::COORDINATOR,
            Purpose::Control | Purpose::Data => true,
            Purpose::Store | Purpose::Segment | Purpose::Agent | Purpose::Probe => false,
        };
        if fits && rank > self.rank && rank.number() < self.size {
            WELCOME
        } else {
            2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_higher_ranks_of_this_generation_are_welcome() {
        let expected = Expected {
            rank: Rank::new(1),
            size: 3,
            generation: 7,
        };
        let judge =
            |rank, generation, purpose| expected.judge(Rank::new(rank), generation, purpose);
        assert_eq!(judge(2, 7, Purpose::Data), WELCOME);
        assert_eq!(judge(2, 7, Purpose::Control), WELCOME);
        assert_eq!(judge(2, 8, Purpose::Data), OTHER_GENERATION);
        for (rank, purpose) in [
            (1, Purpose::Data),
            (0, Purpose::Data),
            (3, Purpose::Data),
            (2, Purpose::Lifeline),
        ] {
            assert_eq!(judge(rank, 7, purpose), 2, "{rank} {purpose:?}");
        }
    }
}
