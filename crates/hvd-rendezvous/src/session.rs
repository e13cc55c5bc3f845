//! What protects a connection after its handshake: every byte travels in records that only the two
//! ends can make and read.
//!
//! ```text
//! length u32, little endian | length bytes: AES-256-GCM of at most 64 KiB, and its tag[16]
//! ```
//!
//! - `SEAL-1` each direction has a key of its own, made by the handshake for this connection only.
//!   Records of another connection, or of the other direction, do not open.
//! - `SEAL-2` the nonce is the number of the record and is never sent. A record that is changed,
//!   left out, repeated or moved does not open, and neither does any after it.
//! - `SEAL-3` a length that no record can have is refused before anything is allocated for it.
//! - `SEAL-4` a key protects at most [`REKEY_AFTER`] records; then both ends replace it as Noise's
//!   `REKEY` says, so that jobs of weeks stay far below what one key of AES-GCM may encrypt.
//!
//! The end of a connection is not sealed: who can cut it can also make it end early. Protocols for
//! which that matters say goodbye in a record.

use std::io::{self, Read, Write};
use std::ops::Range;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

use crate::{Error, Result};

/// Bytes in front of a record.
const HEADER: usize = 4;

/// Bytes behind its text.
const TAG: usize = 16;

/// The most bytes that one record protects.
pub const LONGEST: usize = 64 * 1024;

/// Records after which a key is replaced.
const REKEY_AFTER: u64 = 1 << 20;

/// Said of bytes that do not open.
pub const TAMPERED: &str = "bytes arrived that the other end did not send: the connection is \
                            damaged or changed on its way";

/// The key of one direction, and how often it was used.
#[derive(Debug)]
struct Cipher {
    /// Its schedule takes half a kilobyte; sessions are moved about before they are used.
    key: Box<LessSafeKey>,
    used: u64,
}

impl Cipher {
    fn new(secret: &[u8; 32]) -> Result<Self> {
        let key = UnboundKey::new(&AES_256_GCM, secret).map_err(|_| Error::NoCipher)?;
        let key = Box::new(LessSafeKey::new(key));
        Ok(Self { key, used: 0 })
    }

    /// As Noise writes it for AES-GCM: four bytes of zero, then the number in big endian.
    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// The nonce of the next record (`SEAL-2`), under a new key if it is time for one (`SEAL-4`).
    fn next_nonce(&mut self) -> Result<Nonce> {
        if self.used == REKEY_AFTER {
            let mut secret = [0; 32];
            let number = Self::nonce(u64::MAX);
            let sealed = self
                .key
                .seal_in_place_separate_tag(number, Aad::empty(), &mut secret);
            let _tag = sealed.map_err(|_| Error::NoCipher)?;
            *self = Self::new(&secret)?;
        }
        self.used += 1;
        Ok(Self::nonce(self.used - 1))
    }

    fn seal(&mut self, header: [u8; HEADER], text: &mut [u8]) -> Result<Tag> {
        let nonce = self.next_nonce()?;
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), text);
        sealed.map_err(|_| Error::NoCipher)
    }

    /// Opens text and tag where they are; the text keeps its place.
    fn open(&mut self, header: [u8; HEADER], record: &mut [u8]) -> Result<()> {
        let nonce = self.next_nonce()?;
        let opened = self.key.open_in_place(nonce, Aad::from(header), record);
        opened.map(drop).map_err(|_| Error::Tampered)
    }
}

/// The sending half of a session.
#[derive(Debug)]
pub struct Sealer(Cipher);

impl Sealer {
    /// Appends a record with as much of `text` as fits into one; returns how much that was.
    pub fn seal(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let text = &text[..text.len().min(LONGEST)];
        let length = u32::try_from(text.len() + TAG).map_err(|_| Error::NoCipher)?;
        let header = length.to_le_bytes();
        let start = out.len() + HEADER;
        out.reserve(HEADER + text.len() + TAG);
        out.extend(header);
        out.extend(text);
        let tag = self.0.seal(header, &mut out[start..])?;
        out.extend(tag.as_ref());
        Ok(text.len())
    }

    /// Appends all of `text`, in as many records as it takes.
    pub fn seal_all(&mut self, mut text: &[u8], out: &mut Vec<u8>) -> Result<()> {
        while !text.is_empty() {
            let sealed = self.seal(text, out)?;
            text = &text[sealed..];
        }
        Ok(())
    }
}

/// The receiving half of a session: collects the bytes of records, however they arrive, and opens
/// those that are complete.
#[derive(Debug)]
pub struct Opener {
    cipher: Cipher,
    /// Opened text, then received bytes, then room for more.
    buffer: Vec<u8>,
    /// Text that was not taken yet.
    text: Range<usize>,
    /// Bytes that were not opened yet.
    sealed: Range<usize>,
}

impl Opener {
    fn new(cipher: Cipher) -> Self {
        Self {
            cipher,
            buffer: Vec::new(),
            text: 0..0,
            sealed: 0..0,
        }
    }

    /// Room for at least `length` more bytes; what was put there is reported to [`Self::filled`].
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        if self.text.is_empty() && self.sealed.is_empty() {
            self.sealed = 0..0;
        } else if self.buffer.len() - self.sealed.end < length {
            let kept = if self.text.is_empty() {
                self.sealed.start
            } else {
                self.text.start
            };
            self.buffer.copy_within(kept..self.sealed.end, 0);
            let moved = |range: &Range<usize>| {
                range.start.saturating_sub(kept)..range.end.saturating_sub(kept)
            };
            (self.text, self.sealed) = (moved(&self.text), moved(&self.sealed));
        }
        let end = self.sealed.end;
        if self.buffer.len() < end + length {
            self.buffer.resize(end + length, 0);
        }
        &mut self.buffer[end..]
    }

    /// So many bytes were put into the room.
    pub fn filled(&mut self, count: usize) {
        self.sealed.end = self.buffer.len().min(self.sealed.end + count);
    }

    /// The bytes that are missing until something more is known: the next header, or the rest of
    /// the next record. Zero if a record is complete.
    pub fn missing(&self) -> Result<usize> {
        Ok(match self.header()? {
            None => HEADER - self.sealed.len(),
            Some((_, length)) => (HEADER + length).saturating_sub(self.sealed.len()),
        })
    }

    /// Whether a part of a record has arrived: a connection must not end there.
    pub fn is_amid_record(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// The header of the next record and the length that it claims (`SEAL-3`).
    fn header(&self) -> Result<Option<([u8; HEADER], usize)>> {
        let Some(header) = self.buffer[self.sealed.clone()].first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*header) as usize;
        if (TAG..=TAG + LONGEST).contains(&length) {
            Ok(Some((*header, length)))
        } else {
            Err(Error::Tampered)
        }
    }

    /// Whether [`Self::take`] has something to give, or an error to report.
    pub fn is_ready(&self) -> bool {
        !self.text.is_empty() || !matches!(self.missing(), Ok(1..))
    }

    /// Takes text that has arrived; zero if there is none yet.
    pub fn take(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut taken = 0;
        while taken < out.len() && (!self.text.is_empty() || self.open()?) {
            let count = self.text.len().min(out.len() - taken);
            let from = self.text.start;
            out[taken..taken + count].copy_from_slice(&self.buffer[from..from + count]);
            self.text.start += count;
            taken += count;
        }
        Ok(taken)
    }

    /// Opens the next record; false if it is not complete yet.
    fn open(&mut self) -> Result<bool> {
        let Some((header, length)) = self.header()? else {
            return Ok(false);
        };
        if self.sealed.len() < HEADER + length {
            return Ok(false);
        }
        let start = self.sealed.start + HEADER;
        let end = start + length;
        self.cipher.open(header, &mut self.buffer[start..end])?;
        self.text = start..end - TAG;
        self.sealed.start = end;
        Ok(true)
    }
}

/// Both halves of what protects one connection.
#[derive(Debug)]
pub struct SecureSession {
    /// For what this end sends.
    pub sealer: Sealer,
    /// For what it receives.
    pub opener: Opener,
}

impl SecureSession {
    /// A session from the keys that a handshake made.
    pub(crate) fn new(sending: &[u8; 32], receiving: &[u8; 32]) -> Result<Self> {
        Ok(Self {
            sealer: Sealer(Cipher::new(sending)?),
            opener: Opener::new(Cipher::new(receiving)?),
        })
    }

    /// The connection as its user sees it. Reads take not a byte more from `stream` than the record
    /// in question has.
    pub fn over<S>(&mut self, stream: S) -> Sealed<'_, S> {
        Sealed {
            session: self,
            stream,
        }
    }
}

/// A stream whose bytes are sealed when they are written and opened when they are read.
#[derive(Debug)]
pub struct Sealed<'a, S> {
    session: &'a mut SecureSession,
    stream: S,
}

impl<S: Read> Read for Sealed<'_, S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let opener = &mut self.session.opener;
        loop {
            let taken = opener.take(out)?;
            if taken > 0 {
                return Ok(taken);
            }
            let missing = opener.missing()?;
            let room = &mut opener.room(missing)[..missing];
            match self.stream.read(room)? {
                0 if opener.is_amid_record() => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 => return Ok(0),
                count => opener.filled(count),
            }
        }
    }
}

impl<S: Write> Write for Sealed<'_, S> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if text.is_empty() {
            return Ok(0);
        }
        let mut record = Vec::new();
        let sealed = self.session.sealer.seal(text, &mut record)?;
        self.stream.write_all(&record)?;
        Ok(sealed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { source, .. } => source,
            Error::Tampered => Self::new(io::ErrorKind::InvalidData, TAMPERED),
            other => Self::other(other),
        }
    }
}

#[cfg(test)]
mod tests;
