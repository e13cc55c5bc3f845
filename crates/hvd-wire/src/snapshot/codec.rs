//! Encodes and decodes snapshots.
//!
//! ```text
//! snapshot    process u32 | text wires | text unknown | list of operations | list of threads
//! operation   text name | kind u8 | state u8 | process set u32 | four ages u64
//! age         milliseconds + 1; 0 if that state was not reached
//! thread      text name | list of frames
//! frame       text file | line u32 | text function | origin u8
//! reports     list of: rank u32 | text host | flag | length u64 | snapshot
//! ```
//!
//! - `SNAP-1` no snapshot is longer than [`MAX_SNAPSHOT_BYTES`]: names are shortened, then the outermost
//!   frames and the last threads are left out.

use std::time::Duration;

use super::{
    MAX_OPERATIONS, MAX_SNAPSHOT_BYTES, OperationState, OperationStatus, Origin, RankReport,
    RankSnapshot, StackFrame, ThreadStack,
};
use crate::decode::{Reader, unknown};
use crate::encode::{list, number, rank, text};
use crate::{Error, Result};

/// Longer texts are truncated to this many bytes.
const LONGEST_NAME: usize = 96;
const LONGEST_FILE: usize = 256;
/// Bytes of a list's count.
const COUNT: usize = 4;

impl RankSnapshot {
    /// The bytes, at most [`MAX_SNAPSHOT_BYTES`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.process.to_le_bytes());
        text(&mut out, head(&self.wires, LONGEST_FILE));
        text(&mut out, head(&self.unknown, LONGEST_FILE));
        let first = self.operations.len().saturating_sub(MAX_OPERATIONS);
        list(&mut out, &self.operations[first..], operation);
        self.put_threads(&mut out);
        out
    }

    /// As many threads as fit, each with as many frames as fit.
    fn put_threads(&self, out: &mut Vec<u8>) {
        let count_at = out.len();
        out.extend([0; COUNT]);
        let mut count = 0_u32;
        for thread in &self.threads {
            let mut bytes = Vec::new();
            text(&mut bytes, head(&thread.name, LONGEST_NAME));
            if out.len() + bytes.len() + COUNT > MAX_SNAPSHOT_BYTES {
                break;
            }
            let room = MAX_SNAPSHOT_BYTES - out.len() - bytes.len() - COUNT;
            let (frames, frame_count) = fitting_frames(&thread.frames, room);
            bytes.extend(frame_count.to_le_bytes());
            bytes.extend(frames);
            out.extend(bytes);
            count += 1;
        }
        out[count_at..][..COUNT].copy_from_slice(&count.to_le_bytes());
    }

    /// Decodes a snapshot that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_SNAPSHOT_BYTES {
            return Err(Error::TooLong {
                length: bytes.len(),
                limit: MAX_SNAPSHOT_BYTES,
            });
        }
        let mut reader = Reader(bytes);
        let snapshot = Self {
            process: u32::from_le_bytes(reader.array()?),
            wires: reader.text()?.to_owned(),
            unknown: reader.text()?.to_owned(),
            operations: reader.list(read_operation)?,
            threads: reader.list(read_thread)?,
        };
        reader.finish(snapshot)
    }
}

impl RankReport {
    /// Encodes the reports about several ranks.
    pub fn encode_all(reports: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        list(&mut out, reports, |out, report| {
            rank(out, report.rank);
            text(out, &report.host);
            out.push(u8::from(report.snapshot.is_some()));
            if let Some(snapshot) = &report.snapshot {
                let bytes = snapshot.encode();
                number(out, bytes.len() as u64);
                out.extend(bytes);
            }
        });
        out
    }

    /// Decodes reports that fill `bytes`.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Self>> {
        let mut reader = Reader(bytes);
        let reports = reader.list(|reader| {
            let (rank, host) = (reader.rank()?, reader.text()?.to_owned());
            let snapshot = reader.flag()?.then(|| read_nested(reader)).transpose()?;
            Ok(Self {
                rank,
                host,
                snapshot,
            })
        })?;
        reader.finish(reports)
    }
}

fn read_nested(reader: &mut Reader<'_>) -> Result<RankSnapshot> {
    let length = usize::try_from(reader.number()?).unwrap_or(usize::MAX);
    RankSnapshot::decode(reader.take(length)?)
}

fn operation(out: &mut Vec<u8>, operation: &OperationStatus) {
    text(out, head(&operation.name, LONGEST_NAME));
    out.extend([operation.kind as u8, operation.state as u8]);
    out.extend(operation.process_set.number().to_le_bytes());
    for ago in operation.ago {
        let milliseconds = ago.map_or(0, |ago| ago.as_millis().saturating_add(1));
        number(out, u64::try_from(milliseconds).unwrap_or(u64::MAX));
    }
}

fn read_operation(reader: &mut Reader<'_>) -> Result<OperationStatus> {
    Ok(OperationStatus {
        name: reader.text()?.to_owned(),
        kind: reader.kind()?,
        state: read_state(reader)?,
        process_set: reader.process_set()?,
        ago: [
            read_age(reader)?,
            read_age(reader)?,
            read_age(reader)?,
            read_age(reader)?,
        ],
    })
}

fn read_state(reader: &mut Reader<'_>) -> Result<OperationState> {
    let code = reader.byte()?;
    let state = OperationState::ALL.get(usize::from(code)).copied();
    state.ok_or_else(|| unknown("state of an operation", code))
}

fn read_age(reader: &mut Reader<'_>) -> Result<Option<Duration>> {
    Ok(reader.number()?.checked_sub(1).map(Duration::from_millis))
}

fn fitting_frames(frames: &[StackFrame], room: usize) -> (Vec<u8>, u32) {
    let (mut out, mut count) = (Vec::new(), 0);
    for frame in frames {
        let before = out.len();
        text(&mut out, tail(&frame.file, LONGEST_FILE));
        out.extend(frame.line.to_le_bytes());
        text(&mut out, head(&frame.function, LONGEST_NAME));
        out.push(frame.origin as u8);
        if out.len() > room {
            out.truncate(before);
            break;
        }
        count += 1;
    }
    (out, count)
}

fn read_thread(reader: &mut Reader<'_>) -> Result<ThreadStack> {
    Ok(ThreadStack {
        name: reader.text()?.to_owned(),
        frames: reader.list(read_frame)?,
    })
}

fn read_frame(reader: &mut Reader<'_>) -> Result<StackFrame> {
    let file = reader.text()?.to_owned();
    let line = u32::from_le_bytes(reader.array()?);
    let function = reader.text()?.to_owned();
    let code = reader.byte()?;
    let origin = Origin::ALL.get(usize::from(code)).copied();
    Ok(StackFrame {
        file,
        line,
        function,
        origin: origin.ok_or_else(|| unknown("origin of a frame", code))?,
    })
}

/// The beginning of a text.
fn head(text: &str, longest: usize) -> &str {
    let mut end = text.len().min(longest);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The end of a text: of a path, the part that tells files apart.
fn tail(text: &str, longest: usize) -> &str {
    let mut start = text.len().saturating_sub(longest);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
