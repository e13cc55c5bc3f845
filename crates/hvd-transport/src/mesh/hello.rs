//! The first messages on a connection between ranks, right after the handshake.
//!
//! ```text
//! connector   rank u32 | attempt u64 | number u8, little endian   ->
//!             <-   reply u8: 0 welcome, 1 another attempt, 2 not expected,
//!                  3 not needed: the acceptor connects that lane itself            acceptor
//! ```
//!
//! The attempt is the one of the acceptor's endpoint: a connector that has met an earlier one is
//! refused. The number tells the connections of one lane apart.

use std::io::{self, Read, Write};

use hvd_rendezvous::Purpose;
use hvd_types::Rank;

use super::tie_break::TieBreak;
use crate::{Error, Result};

const WELCOME: u8 = 0;
const OTHER_ATTEMPT: u8 = 1;
const NOT_EXPECTED: u8 = 2;
const NOT_NEEDED: u8 = 3;

/// The acceptor's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HelloReply {
    Welcome,
    /// The other rank is about to connect that lane.
    NotNeeded,
    NotExpected,
}

/// Which connections an acceptor accepts.
#[derive(Debug)]
pub(super) struct ExpectedPeers {
    /// The acceptor's own rank.
    pub(super) rank: Rank,
    pub(super) size: u32,
    /// Its own attempt to join.
    pub(super) attempt: u64,
    /// Who connects which lane.
    pub(super) tie_break: TieBreak,
}

/// Sends the hello of `rank` and reads the reply; false if the acceptor connects that lane itself.
pub(super) fn send(
    stream: &mut (impl Read + Write),
    rank: Rank,
    attempt: u64,
    number: u8,
) -> Result<bool> {
    let doing = "introducing this rank to another";
    let mut hello = rank.number().to_le_bytes().to_vec();
    hello.extend(attempt.to_le_bytes());
    hello.push(number);
    stream.write_all(&hello).map_err(Error::io(doing))?;
    let mut reply = [0];
    stream.read_exact(&mut reply).map_err(Error::io(doing))?;
    match reply {
        [WELCOME] => Ok(true),
        [NOT_NEEDED] => Ok(false),
        [OTHER_ATTEMPT] => Err(refusal(
            "the other rank has called init() again since it met this one",
        )),
        _ => Err(refusal("the other rank does not expect this one")),
    }
}

fn refusal(text: &'static str) -> Error {
    Error::io("introducing this rank to another")(io::Error::other(text))
}

/// Reads the connector's rank and the connection's number, and replies whether it is expected.
pub(super) fn receive(
    stream: &mut (impl Read + Write),
    purpose: Purpose,
    expected: &ExpectedPeers,
) -> io::Result<(HelloReply, Rank, u8)> {
    let mut hello = [0; 13];
    stream.read_exact(&mut hello)?;
    let [a, b, c, d, attempt @ .., number] = hello;
    let rank = Rank::new(u32::from_le_bytes([a, b, c, d]));
    if u64::from_le_bytes(attempt) != expected.attempt {
        stream.write_all(&[OTHER_ATTEMPT])?;
        return Ok((HelloReply::NotExpected, rank, number));
    }
    let reply = expected.reply_to(rank, purpose, number);
    let code = match reply {
        HelloReply::Welcome => WELCOME,
        HelloReply::NotNeeded => NOT_NEEDED,
        HelloReply::NotExpected => NOT_EXPECTED,
    };
    stream.write_all(&[code])?;
    Ok((reply, rank, number))
}

impl ExpectedPeers {
    fn reply_to(&self, rank: Rank, purpose: Purpose, number: u8) -> HelloReply {
        if rank.number() >= self.size || rank == self.rank {
            return HelloReply::NotExpected;
        }
        match purpose {
            Purpose::Lifeline if self.rank == Rank::COORDINATOR => HelloReply::Welcome,
            Purpose::Control | Purpose::Data => self.tie_break.reply_to(rank, purpose, number),
            Purpose::Lifeline
            | Purpose::Store
            | Purpose::Segment
            | Purpose::Agent
            | Purpose::Probe => HelloReply::NotExpected,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// What rank 1 of 3, in attempt 7, answers.
    fn answer(rank: u32, attempt: u64, purpose: Purpose) -> (u8, bool) {
        let own = Rank::new(1);
        let (size, tie_break) = (3, TieBreak::new(own));
        let expected = ExpectedPeers {
            rank: own,
            size,
            attempt: 7,
            tie_break,
        };
        let mut hello = rank.to_le_bytes().to_vec();
        hello.extend(attempt.to_le_bytes());
        hello.push(0);
        let mut stream = Cursor::new(hello);
        let (reply, sender, 0) = receive(&mut stream, purpose, &expected).unwrap() else {
            panic!("another number")
        };
        assert_eq!(sender, Rank::new(rank));
        (stream.into_inner()[13], reply == HelloReply::Welcome)
    }

    #[test]
    fn only_other_ranks_that_met_this_attempt_are_welcome() {
        for (rank, purpose) in [
            (2, Purpose::Data),
            (2, Purpose::Control),
            (0, Purpose::Data),
        ] {
            assert_eq!(
                answer(rank, 7, purpose),
                (WELCOME, true),
                "{rank} {purpose:?}"
            );
        }
        assert_eq!(answer(2, 8, Purpose::Data), (OTHER_ATTEMPT, false));
        for (rank, purpose) in [
            (1, Purpose::Data),
            (3, Purpose::Data),
            (2, Purpose::Lifeline),
            (2, Purpose::Store),
        ] {
            let expected = (NOT_EXPECTED, false);
            assert_eq!(answer(rank, 7, purpose), expected, "{rank} {purpose:?}");
        }
    }
}
