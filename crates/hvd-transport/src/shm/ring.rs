//! A queue of bytes in shared memory with one writer and one reader.
//!
//! `head` counts the bytes taken, `tail` the bytes put, both from the start of the job; byte `n`
//! lies at `n % capacity`. The writer owns `tail`, the reader `head`; each keeps its own count in
//! private memory and only ever publishes it.
//!
//! - `RING-1` the writer copies bytes, then stores `tail` with release; the reader loads `tail`
//!   with acquire before it copies. So what is read has been written.
//! - `RING-2` the reader copies bytes, then stores `head` with release; the writer loads `head`
//!   with acquire before it writes again. So what is overwritten has been read.
//! - `RING-3` `tail - head` as seen by either end is between 0 and the capacity; anything else is
//!   corruption, and is reported instead of used.
//! - `RING-4` each end publishes after every 64 KiB, so that the other works on one piece while
//!   this one copies the next.

#![expect(
    unsafe_code,
    reason = "bytes in shared memory are copied through raw pointers"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::os::memory::Mapping;

/// The most that is moved before the other end is notified.
pub(super) const PIECE: usize = 64 * 1024;

/// Where a ring lies in its segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingLayout {
    pub(super) head: usize,
    pub(super) tail: usize,
    pub(super) bytes: usize,
    /// A power of two.
    pub(super) capacity: usize,
}

impl RingLayout {
    /// Splits `length` bytes at position `position` into the part before the ring's end and the
    /// rest; returns the first part's offset and length.
    fn split(&self, position: u64, length: usize) -> (usize, usize) {
        // The mask keeps the result below the capacity, which is a usize.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "masked to less than the capacity"
        )]
        let start = (position & (self.capacity as u64 - 1)) as usize;
        (self.bytes + start, length.min(self.capacity - start))
    }
}

/// The other end's index makes no sense (`RING-3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// The distance between the indexes, if it is possible.
fn filled(tail: u64, head: u64, capacity: usize) -> Result<usize, Corrupt> {
    let filled = usize::try_from(tail.wrapping_sub(head)).map_err(|_| Corrupt)?;
    if filled <= capacity {
        Ok(filled)
    } else {
        Err(Corrupt)
    }
}

/// The writing end. Not `Clone`: there is one.
#[derive(Debug)]
pub(crate) struct Producer {
    memory: Arc<Mapping>,
    layout: RingLayout,
    tail: u64,
    /// `head` when last looked at; the real one can only be further.
    head: u64,
}

impl Producer {
    pub(super) fn new(memory: Arc<Mapping>, layout: RingLayout) -> Self {
        Self {
            memory,
            layout,
            tail: 0,
            head: 0,
        }
    }

    /// Writes a beginning of `bytes`, at most one piece, and returns its length.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<usize, Corrupt> {
        let wanted = bytes.len().min(PIECE);
        let mut free = self.layout.capacity - filled(self.tail, self.head, self.layout.capacity)?;
        if free < wanted {
            // Only now the line that the reader writes has to be fetched.
            free = self.look()?;
        }
        let length = wanted.min(free);
        if length > 0 {
            self.copy(&bytes[..length]);
            self.tail = self.tail.wrapping_add(length as u64);
            self.memory
                .long(self.layout.tail)
                .store(self.tail, Ordering::Release);
        }
        Ok(length)
    }

    /// How many bytes could be written now.
    pub(super) fn space(&self) -> Result<usize, Corrupt> {
        let head = self.memory.long(self.layout.head).load(Ordering::Acquire);
        Ok(self.layout.capacity - filled(self.tail, head, self.layout.capacity)?)
    }

    fn look(&mut self) -> Result<usize, Corrupt> {
        let free = self.space()?;
        // Not read a second time: it could have moved on in between, which is fine, or have been
        // overwritten with nonsense, which is not.
        self.head = self.tail.wrapping_sub((self.layout.capacity - free) as u64);
        Ok(free)
    }

    fn copy(&self, bytes: &[u8]) {
        let (offset, length) = self.layout.split(self.tail, bytes.len());
        let (first, second) = bytes.split_at(length);
        // SAFETY: the area lies between `tail` and `head + capacity`. The one reader stays below
        // `tail` until that is published (RING-1), and has left the area, or `head` would not be
        // there (RING-2). This end is the only writer, because a part is claimed once.
        unsafe { self.memory.copy_in(offset, first) };
        // SAFETY: as above; the rest of the same area, from the ring's start.
        unsafe { self.memory.copy_in(self.layout.bytes, second) };
    }
}

/// The reading end. Not `Clone`: there is one.
#[derive(Debug)]
pub(crate) struct Consumer {
    memory: Arc<Mapping>,
    layout: RingLayout,
    head: u64,
}

impl Consumer {
    pub(super) fn new(memory: Arc<Mapping>, layout: RingLayout) -> Self {
        Self {
            memory,
            layout,
            head: 0,
        }
    }

    /// Reads into a beginning of `buffer`, at most one piece, and returns its length.
    pub(super) fn pop(&mut self, buffer: &mut [u8]) -> Result<usize, Corrupt> {
        let length = buffer.len().min(PIECE).min(self.available()?);
        if length > 0 {
            self.copy(&mut buffer[..length]);
            self.head = self.head.wrapping_add(length as u64);
            self.memory
                .long(self.layout.head)
                .store(self.head, Ordering::Release);
        }
        Ok(length)
    }

    /// How many bytes could be read now.
    pub(super) fn available(&self) -> Result<usize, Corrupt> {
        let tail = self.memory.long(self.layout.tail).load(Ordering::Acquire);
        filled(tail, self.head, self.layout.capacity)
    }

    fn copy(&self, buffer: &mut [u8]) {
        let (offset, length) = self.layout.split(self.head, buffer.len());
        let (first, second) = buffer.split_at_mut(length);
        // SAFETY: the area lies between `head` and `tail`. The one writer has written it before
        // `tail` got there (RING-1) and does not come back until `head` is published (RING-2).
        unsafe { self.memory.copy_out(offset, first) };
        // SAFETY: as above; the rest of the same area, from the ring's start.
        unsafe { self.memory.copy_out(self.layout.bytes, second) };
    }
}
