//! What is said on a connection between ranks right after the handshake.
//!
//! ```text
//! connector   rank u32 | attempt u64 | number u8, little endian   ->
//!             <-   verdict u8: 0 welcome, 1 another attempt, 2 not expected,
//!                  3 not needed: the acceptor connects that lane itself            acceptor
//! ```
//!
//! The attempt is the one of the acceptor's card: a connector that has met an earlier one is
//! refused. The number tells the connections of one lane apart.

use std::io::{self, Read, Write};

use hvd_rendezvous::Purpose;
use hvd_types::Rank;

use super::claims::Claims;
use crate::{Error, Result};

const WELCOME: u8 = 0;
const OTHER_ATTEMPT: u8 = 1;
const NOT_EXPECTED: u8 = 2;
const NOT_NEEDED: u8 = 3;

/// What a connector is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Welcome,
    /// The other rank is about to connect that lane.
    NotNeeded,
    NotExpected,
}

/// Whom an acceptor lets in.
#[derive(Debug)]
pub(super) struct Expected {
    /// The acceptor's own rank.
    pub(super) rank: Rank,
    pub(super) size: u32,
    /// Its own attempt to join.
    pub(super) attempt: u64,
    /// Who connects which lane.
    pub(super) claims: Claims,
}

/// Introduces `rank` to the acceptor; false if the acceptor connects that lane itself.
pub(super) fn say(
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
    let mut verdict = [0];
    stream.read_exact(&mut verdict).map_err(Error::io(doing))?;
    match verdict {
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

/// Hears who the connector is and the connection's number, and says whether it is somebody who is
/// expected.
pub(super) fn hear(
    stream: &mut (impl Read + Write),
    purpose: Purpose,
    expected: &Expected,
) -> io::Result<(Verdict, Rank, u8)> {
    let mut hello = [0; 13];
    stream.read_exact(&mut hello)?;
    let [a, b, c, d, attempt @ .., number] = hello;
    let rank = Rank::new(u32::from_le_bytes([a, b, c, d]));
    if u64::from_le_bytes(attempt) != expected.attempt {
        stream.write_all(&[OTHER_ATTEMPT])?;
        return Ok((Verdict::NotExpected, rank, number));
    }
    let verdict = expected.judge(rank, purpose, number);
    let said = match verdict {
        Verdict::Welcome => WELCOME,
        Verdict::NotNeeded => NOT_NEEDED,
        Verdict::NotExpected => NOT_EXPECTED,
    };
    stream.write_all(&[said])?;
    Ok((verdict, rank, number))
}

impl Expected {
    fn judge(&self, rank: Rank, purpose: Purpose, number: u8) -> Verdict {
        if rank.number() >= self.size || rank == self.rank {
            return Verdict::NotExpected;
        }
        match purpose {
            Purpose::Lifeline if self.rank == Rank::COORDINATOR => Verdict::Welcome,
            Purpose::Control | Purpose::Data => self.claims.judge(rank, purpose, number),
            Purpose::Lifeline
            | Purpose::Store
            | Purpose::Segment
            | Purpose::Agent
            | Purpose::Probe => Verdict::NotExpected,
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
        let (size, claims) = (3, Claims::new(own));
        let expected = Expected {
            rank: own,
            size,
            attempt: 7,
            claims,
        };
        let mut hello = rank.to_le_bytes().to_vec();
        hello.extend(attempt.to_le_bytes());
        hello.push(0);
        let mut stream = Cursor::new(hello);
        let (verdict, heard, 0) = hear(&mut stream, purpose, &expected).unwrap() else {
            panic!("another number")
        };
        assert_eq!(heard, Rank::new(rank));
        (stream.into_inner()[13], verdict == Verdict::Welcome)
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
