//! Requests to the store and its answers, as the contents of [`crate::frame`]s.
//!
//! ```text
//! request   1 put       text key   | value: the rest
//!           2 get       timeout ms u64 | text key
//!           3 exchange  timeout ms u64 | rank u32 | size u32 | text scope | value: the rest
//!           4 leave     rank u32 | text scope | text reason
//!           5 number
//! answer    0 done
//!           1 value     the rest
//!           2 values    count u32 | count times bytes
//!           3 timed out
//!           4 missing   count u32 | count times rank u32
//!           5 refused   text
//!           6 stopped
//!           7 number    u64
//!           8 gave up   rank u32 | text reason
//!           9 ended     rank u32 | text reason
//! bytes     length u32 | length bytes           text   the same, in UTF-8
//! ```
//!
//! Numbers are little endian. Decoding borrows from the message and allocates nothing that the
//! message does not contain.

use std::time::Duration;

use hvd_types::Rank;

use crate::exchange::ExchangedValues;
use crate::{Error, Result};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StoreRequest<'a> {
    Put {
        key: &'a str,
        value: &'a [u8],
    },
    Get {
        key: &'a str,
        timeout: Duration,
    },
    Exchange {
        scope: &'a str,
        rank: Rank,
        size: u32,
        value: &'a [u8],
        timeout: Duration,
    },
    Leave {
        scope: &'a str,
        rank: Rank,
        reason: &'a str,
    },
    Number,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StoreResponse {
    Done,
    Value(Vec<u8>),
    Values(ExchangedValues),
    TimedOut,
    Missing(Vec<Rank>),
    Refused(String),
    Stopped,
    Number(u64),
    GaveUp(Rank, String),
    Ended(Rank, String),
}

impl<'a> StoreRequest<'a> {
    /// Whether the answer may take longer than a moment.
    pub(crate) fn may_wait(&self) -> bool {
        matches!(self, Self::Get { .. } | Self::Exchange { .. })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match *self {
            Self::Put { key, value } => {
                out.push(1);
                put_bytes(&mut out, key.as_bytes());
                out.extend(value);
            }
            Self::Get { key, timeout } => {
                out.push(2);
                put_timeout(&mut out, timeout);
                put_bytes(&mut out, key.as_bytes());
            }
            Self::Exchange {
                scope,
                rank,
                size,
                value,
                timeout,
            } => {
                out.push(3);
                put_timeout(&mut out, timeout);
                out.extend(rank.number().to_le_bytes());
                out.extend(size.to_le_bytes());
                put_bytes(&mut out, scope.as_bytes());
                out.extend(value);
            }
            Self::Leave {
                scope,
                rank,
                reason,
            } => {
                out.push(4);
                out.extend(rank.number().to_le_bytes());
                put_bytes(&mut out, scope.as_bytes());
                put_bytes(&mut out, reason.as_bytes());
            }
            Self::Number => out.push(5),
        }
        out
    }

    pub(crate) fn decode(message: &'a [u8]) -> Result<Self> {
        let mut fields = Fields(message);
        let [kind] = fields.array()?;
        match kind {
            1 => Ok(Self::Put {
                key: fields.text()?,
                value: fields.0,
            }),
            2 => {
                let timeout = fields.timeout()?;
                let key = fields.text()?;
                fields.end()?;
                Ok(Self::Get { key, timeout })
            }
            3 => {
                let timeout = fields.timeout()?;
                let (rank, size) = (Rank::new(fields.number()?), fields.number()?);
                let scope = fields.text()?;
                Ok(Self::Exchange {
                    scope,
                    rank,
                    size,
                    value: fields.0,
                    timeout,
                })
            }
            4 => {
                let rank = Rank::new(fields.number()?);
                let (scope, reason) = (fields.text()?, fields.text()?);
                fields.end()?;
                Ok(Self::Leave {
                    scope,
                    rank,
                    reason,
                })
            }
            5 => fields.end().map(|()| Self::Number),
            _ => Err(Error::Malformed("unknown kind of request")),
        }
    }
}

impl StoreResponse {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Done => out.push(0),
            Self::Value(value) => {
                out.push(1);
                out.extend(value);
            }
            Self::Values(values) => {
                out.push(2);
                put_count(&mut out, values.len());
                for value in values.iter() {
                    put_bytes(&mut out, value);
                }
            }
            Self::TimedOut => out.push(3),
            Self::Missing(ranks) => {
                out.push(4);
                put_count(&mut out, ranks.len());
                for rank in ranks {
                    out.extend(rank.number().to_le_bytes());
                }
            }
            Self::Refused(text) => {
                out.push(5);
                put_bytes(&mut out, text.as_bytes());
            }
            Self::Stopped => out.push(6),
            Self::Number(number) => {
                out.push(7);
                out.extend(number.to_le_bytes());
            }
            Self::GaveUp(rank, reason) => put_departure(&mut out, 8, *rank, reason),
            Self::Ended(rank, reason) => put_departure(&mut out, 9, *rank, reason),
        }
        out
    }

    pub(crate) fn decode(message: &[u8]) -> Result<Self> {
        let mut fields = Fields(message);
        let [kind] = fields.array()?;
        let answer = match kind {
            0 => Self::Done,
            1 => return Ok(Self::Value(fields.0.to_vec())),
            2 => {
                let count = fields.number()?;
                let values: Result<Vec<_>> =
                    (0..count).map(|_| Ok(fields.bytes()?.to_vec())).collect();
                Self::Values(values?.into())
            }
            3 => Self::TimedOut,
            4 => {
                let count = fields.number()?;
                let ranks: Result<_> = (0..count)
                    .map(|_| Ok(Rank::new(fields.number()?)))
                    .collect();
                Self::Missing(ranks?)
            }
            5 => Self::Refused(fields.text()?.to_owned()),
            6 => Self::Stopped,
            7 => Self::Number(u64::from_le_bytes(fields.array()?)),
            8 => Self::GaveUp(Rank::new(fields.number()?), fields.text()?.to_owned()),
            9 => Self::Ended(Rank::new(fields.number()?), fields.text()?.to_owned()),
            _ => return Err(Error::Malformed("unknown kind of answer")),
        };
        fields.end()?;
        Ok(answer)
    }
}

fn put_departure(out: &mut Vec<u8>, kind: u8, rank: Rank, reason: &str) {
    out.push(kind);
    out.extend(rank.number().to_le_bytes());
    put_bytes(out, reason.as_bytes());
}

fn put_timeout(out: &mut Vec<u8>, timeout: Duration) {
    let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    out.extend(milliseconds.to_le_bytes());
}

/// A count or length; anything above 32 bits is cut here and refused by the frame's limit.
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend(bytes);
}

/// What is left of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (field, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(Error::Malformed("it is cut short"))?;
        self.0 = rest;
        Ok(field)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH]> {
        let field = self.take(LENGTH)?;
        field
            .try_into()
            .map_err(|_| Error::Malformed("it is cut short"))
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn timeout(&mut self) -> Result<Duration> {
        Ok(Duration::from_millis(u64::from_le_bytes(self.array()?)))
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }

    fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::Malformed("a name is not UTF-8"))
    }

    fn end(&self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Error::Malformed("it is too long"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn requests_come_back(key: String, value: Vec<u8>, rank: u32, size: u32, ms: u64) {
            let (rank, timeout) = (Rank::new(rank), Duration::from_millis(ms));
            for request in [
                StoreRequest::Put { key: &key, value: &value },
                StoreRequest::Get { key: &key, timeout },
                StoreRequest::Exchange { scope: &key, rank, size, value: &value, timeout },
                StoreRequest::Leave { scope: &key, rank, reason: &key },
                StoreRequest::Number,
            ] {
                let message = request.encode();
                prop_assert_eq!(&StoreRequest::decode(&message).unwrap(), &request);
            }
        }

        #[test]
        fn answers_come_back(values: Vec<Vec<u8>>, ranks: Vec<u32>, text: String, number: u64) {
            let rank = Rank::new(ranks.first().copied().unwrap_or_default());
            for answer in [
                StoreResponse::Done,
                StoreResponse::Value(values.concat()),
                StoreResponse::Values(Arc::new(values)),
                StoreResponse::TimedOut,
                StoreResponse::Missing(ranks.into_iter().map(Rank::new).collect()),
                StoreResponse::Refused(text.clone()),
                StoreResponse::Stopped,
                StoreResponse::Number(number),
                StoreResponse::GaveUp(rank, text.clone()),
                StoreResponse::Ended(rank, text),
            ] {
                prop_assert_eq!(&StoreResponse::decode(&answer.encode()).unwrap(), &answer);
            }
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let _ = StoreRequest::decode(&bytes);
            let _ = StoreResponse::decode(&bytes);
        }
    }

    #[test]
    fn a_huge_count_allocates_nothing() {
        assert!(StoreResponse::decode(&[2, 0xff, 0xff, 0xff, 0xff]).is_err());
    }
}
