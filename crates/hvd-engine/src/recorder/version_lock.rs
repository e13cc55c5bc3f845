//! Atomic words that one thread writes and any thread may copy, without either waiting.
//!
//! The writer makes the version odd, stores the words, makes it even; a reader takes a copy and
//! keeps it only if the version was even and the same before and after. All words are atomic, so a
//! torn copy is harmless and no unsafe code is needed. The release fence after the odd version and
//! the acquire fence before the second look pair up: a reader that saw any word of a newer record
//! also sees that the version has moved.
//!
//! The test `interleavings` compiles this file with another `atomic` and tries every order.

use super::atomic::{AtomicU64, Ordering, fence};

/// The words and their version: odd while the writer is inside, 0 if never written.
pub(super) struct VersionLock<const WORDS: usize> {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> VersionLock<WORDS> {
    /// Begins to write and returns what [`Self::leave`] needs. Only the one writer may.
    pub(super) fn enter(&self) -> u64 {
        let version = self.version.load(Ordering::Relaxed) + 1;
        self.version.store(version, Ordering::Relaxed);
        fence(Ordering::Release);
        version
    }

    /// Ends what [`Self::enter`] began.
    pub(super) fn leave(&self, version: u64) {
        self.version.store(version + 1, Ordering::Release);
    }

    /// Writes a word, between `enter` and `leave`.
    pub(super) fn put(&self, index: usize, word: u64) {
        self.words[index].store(word, Ordering::Relaxed);
    }

    /// A word as the writer left it; for the writer.
    pub(super) fn get(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }

    /// Whether anything was written; for the writer.
    pub(super) fn is_used(&self) -> bool {
        self.version.load(Ordering::Relaxed) != 0
    }

    /// The words as they were at one moment; `None` if the writer was inside meanwhile.
    pub(super) fn copy(&self) -> Option<[u64; WORDS]> {
        let before = self.version.load(Ordering::Acquire);
        let words = std::array::from_fn(|index| self.get(index));
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then_some(words)
    }
}

impl<const WORDS: usize> Default for VersionLock<WORDS> {
    fn default() -> Self {
        Self {
            version: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}
