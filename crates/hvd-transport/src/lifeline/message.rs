//! What travels on a lifeline, as bytes. See the parent for the format.

use hvd_types::Rank;

use super::status_query::MAX_ANSWER_BYTES;
use crate::Failure;

const GOODBYE: u8 = 1;
const FAILURE: u8 = 2;
const HEARTBEAT: u8 = 3;
const QUERY: u8 = 4;
const ANSWER: u8 = 5;
/// Longer reasons and host names are cut.
const LONGEST: usize = 8 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LifelineMessage {
    Goodbye,
    Failure(Failure),
    Heartbeat,
    Query(u32),
    Answer { number: u32, answer: Vec<u8> },
}

/// Bytes that are no message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl LifelineMessage {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Self::Goodbye => (GOODBYE, Vec::new()),
            Self::Failure(failure) => (FAILURE, encode_failure(failure)),
            Self::Heartbeat => (HEARTBEAT, Vec::new()),
            Self::Query(number) => (QUERY, number.to_le_bytes().to_vec()),
            Self::Answer { number, answer } => {
                let answer = &answer[..answer.len().min(MAX_ANSWER_BYTES)];
                (ANSWER, [&number.to_le_bytes(), answer].concat())
            }
        };
        let mut out = vec![kind];
        out.extend(length(&body));
        out.extend(body);
        out
    }

    /// Takes the first message from what has arrived; `None` until it is complete.
    pub(super) fn take(input: &mut Vec<u8>) -> Result<Option<Self>, Malformed> {
        let Some((&[kind, low, high], rest)) = input.split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes([low, high]));
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = match kind {
            GOODBYE => Self::Goodbye,
            FAILURE => Self::Failure(decode_failure(body).ok_or(Malformed)?),
            HEARTBEAT => Self::Heartbeat,
            QUERY => Self::Query(u32::from_le_bytes(body.try_into().map_err(|_| Malformed)?)),
            ANSWER => {
                let (number, answer) = body.split_first_chunk().ok_or(Malformed)?;
                Self::Answer {
                    number: u32::from_le_bytes(*number),
                    answer: answer.to_vec(),
                }
            }
            _ => return Err(Malformed),
        };
        input.drain(..3 + length);
        Ok(Some(message))
    }
}

fn encode_failure(failure: &Failure) -> Vec<u8> {
    let (host, reason) = (cut(&failure.host), cut(&failure.reason));
    let mut body = failure.rank.number().to_le_bytes().to_vec();
    body.extend(length(host.as_bytes()));
    body.extend(host.as_bytes());
    body.extend(reason.as_bytes());
    body
}

fn decode_failure(body: &[u8]) -> Option<Failure> {
    let (rank, rest) = body.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (host, reason) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some(Failure {
        rank: Rank::new(u32::from_le_bytes(*rank)),
        host: String::from_utf8_lossy(host).into_owned(),
        reason: String::from_utf8_lossy(reason).into_owned(),
    })
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The length of something that [`cut`] kept below 16 bits.
fn length(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_come_back_in_order_however_they_are_cut(rank: u32, host: String, reason: String, answer: Vec<u8>, cut: prop::sample::Index) {
            let failure = LifelineMessage::Failure(Failure { rank: Rank::new(rank), host, reason });
            let messages = [failure, LifelineMessage::Heartbeat, LifelineMessage::Query(rank), LifelineMessage::Answer { number: rank, answer }, LifelineMessage::Goodbye];
            let bytes = messages.each_ref().map(LifelineMessage::encode).concat();
            let (first, second) = bytes.split_at(cut.index(bytes.len()));
            let mut input = first.to_vec();
            let mut seen: Vec<LifelineMessage> = std::iter::from_fn(|| LifelineMessage::take(&mut input).unwrap()).collect();
            input.extend(second);
            seen.extend(std::iter::from_fn(|| LifelineMessage::take(&mut input).unwrap()));
            prop_assert_eq!(seen, messages);
            prop_assert!(input.is_empty());
        }

        #[test]
        fn garbage_never_panics(mut bytes: Vec<u8>) {
            while let Ok(Some(_)) = LifelineMessage::take(&mut bytes) {}
        }
    }

    #[test]
    fn endless_texts_are_cut() {
        let failure = Failure {
            rank: Rank::new(1),
            host: "é".repeat(90_000),
            reason: "x".repeat(90_000),
        };
        let mut bytes = LifelineMessage::Failure(failure).encode();
        let Ok(Some(LifelineMessage::Failure(failure))) = LifelineMessage::take(&mut bytes) else {
            panic!()
        };
        assert_eq!(
            (failure.host.len(), failure.reason.len()),
            (LONGEST, LONGEST)
        );
        assert!(bytes.is_empty());
        let answer = vec![7; 90_000];
        let mut bytes = LifelineMessage::Answer { number: 1, answer }.encode();
        let Ok(Some(LifelineMessage::Answer { answer, .. })) = LifelineMessage::take(&mut bytes)
        else {
            panic!()
        };
        assert_eq!((answer.len(), bytes.len()), (MAX_ANSWER_BYTES, 0));
    }
}
