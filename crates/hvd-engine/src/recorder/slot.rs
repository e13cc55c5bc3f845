//! One record of the ring: 24 atomic words, three cache lines.
//!
//! ```text
//! 0        version: odd while the writer is inside; 0 if never used
//! 1        number of the operation
//! 2        kind | dtype << 8 | state << 16 | dimension count << 24 | process set << 32
//! 3        bytes of the name as it was given
//! 4..8     times of the four phases, nanoseconds + 1; 0 if not reached
//! 8..16    name, 64 bytes, the rest zero
//! 16..24   first eight dimensions
//! ```
//!
//! [`version_lock`] explains how a reader gets a record that was never half written.
//!
//! [`version_lock`]: super::version_lock

use std::time::Duration;

use hvd_types::{DType, OpKind, ProcessSetId};

use super::version_lock::VersionLock;
use super::{FlightEvent, OperationNumber, OperationState, Record};

const NUMBER: usize = 0;
const FACTS: usize = 1;
const NAME_LENGTH: usize = 2;
const TIMES: usize = 3;
const NAME: usize = 7;
const DIMENSIONS: usize = 15;
const WORDS: usize = 23;

const NAME_BYTES: usize = 64;
/// Of a long name, the bytes kept from its beginning and from its end. Names of layers differ
/// near both ends more often than in the middle.
const NAME_HEAD: usize = 24;
const MOST_DIMENSIONS: usize = 8;
/// How often a reader tries again when the writer is inside; then the record is left out.
const ATTEMPTS: usize = 64;

/// One record.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct RecordSlot {
    words: VersionLock<WORDS>,
}

impl RecordSlot {
    /// Overwrites the record. Only the one writer may call this.
    pub(super) fn begin(&self, number: OperationNumber, event: &FlightEvent<'_>, when: Duration) {
        let version = self.words.enter();
        self.words.put(NUMBER, number.0);
        self.words.put(FACTS, facts(event));
        self.words.put(NAME_LENGTH, event.name.len() as u64);
        self.words.put(TIMES, nanoseconds(when));
        for phase in 1..4 {
            self.words.put(TIMES + phase, 0);
        }
        self.put_name(event.name.as_bytes());
        let dimensions = event.dimensions.iter().take(MOST_DIMENSIONS);
        for (index, &dimension) in dimensions.enumerate() {
            self.words.put(DIMENSIONS + index, dimension);
        }
        self.words.leave(version);
    }

    /// Moves the record on, if it still is about that operation. Only the one writer may call this.
    pub(super) fn advance(&self, number: OperationNumber, state: OperationState, when: Duration) {
        if self.words.get(NUMBER) != number.0 || !self.words.is_used() {
            return;
        }
        let version = self.words.enter();
        let others = self.words.get(FACTS) & !(0xff << 16);
        self.words.put(FACTS, others | (state as u64) << 16);
        self.words.put(TIMES + state.phase(), nanoseconds(when));
        self.words.leave(version);
    }

    /// The record as it was at one moment; `None` if there is none or it never stood still. An
    /// unused slot reads as number zero with no times.
    pub(super) fn read(&self) -> Option<Record> {
        (0..ATTEMPTS)
            .find_map(|_| self.words.copy())
            .and_then(|words| decode(&words))
    }

    fn put_name(&self, name: &[u8]) {
        let mut kept = [0_u8; NAME_BYTES];
        if let Some(short) = kept.get_mut(..name.len()) {
            short.copy_from_slice(name);
        } else {
            let tail = NAME_BYTES - NAME_HEAD;
            kept[..NAME_HEAD].copy_from_slice(&name[..NAME_HEAD]);
            kept[NAME_HEAD..].copy_from_slice(&name[name.len() - tail..]);
        }
        let (words, _) = kept.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            self.words.put(NAME + index, u64::from_le_bytes(*word));
        }
    }
}

fn facts(event: &FlightEvent<'_>) -> u64 {
    let count = event.dimensions.len().min(0xff) as u64;
    event.kind as u64
        | (event.dtype as u64) << 8
        | (OperationState::Submitted as u64) << 16
        | count << 24
        | u64::from(event.process_set.number()) << 32
}

/// Nanoseconds and one more, so that zero stays free to mean "not yet". Good for 584 years.
fn nanoseconds(when: Duration) -> u64 {
    let whole = when.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(u64::from(when.subsec_nanos()) + 1)
}

fn decode(words: &[u64; WORDS]) -> Option<Record> {
    let [kind, dtype, state, count, set @ ..] = words[FACTS].to_le_bytes();
    let times = std::array::from_fn(|phase| {
        let nanos = words[TIMES + phase].checked_sub(1)?;
        Some(Duration::from_nanos(nanos))
    });
    // Every used slot has a first time.
    times[0]?;
    let dimension_count = usize::from(count);
    let dimensions = &words[DIMENSIONS..][..dimension_count.min(MOST_DIMENSIONS)];
    Some(Record {
        number: OperationNumber(words[NUMBER]),
        name: decode_name(words),
        kind: OpKind::try_from(kind).ok()?,
        dtype: DType::try_from(dtype).ok()?,
        dimensions: dimensions.to_vec(),
        dimension_count,
        process_set: ProcessSetId::new(u32::from_le_bytes(set)),
        state: OperationState::ALL.get(usize::from(state)).copied()?,
        times,
    })
}

fn decode_name(words: &[u64; WORDS]) -> String {
    let mut bytes = [0_u8; NAME_BYTES];
    let (chunks, _) = bytes.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip(&words[NAME..]) {
        *chunk = word.to_le_bytes();
    }
    let length = usize::try_from(words[NAME_LENGTH]).unwrap_or(usize::MAX);
    if let Some(whole) = bytes.get(..length) {
        return String::from_utf8_lossy(whole).into_owned();
    }
    // The cuts may go through a character; its remains are dropped, not shown as rubble.
    let text = |bytes| String::from_utf8_lossy(bytes).replace(char::REPLACEMENT_CHARACTER, "");
    let (head, tail) = bytes.split_at(NAME_HEAD);
    format!("{}...{}", text(head), text(tail))
}
