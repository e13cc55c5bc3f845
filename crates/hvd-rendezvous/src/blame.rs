//! Whose fault it was: a note that a rank leaves in the store when it cannot go on because of
//! another rank.
//!
//! When one rank raises, exits or hangs, the others fail because of it, and any of them may be the
//! first whose process ends. The launcher reads these notes to report the cause and not a
//! consequence.

use hvd_types::Rank;

use crate::{Result, Store};

/// Where the note of `accuser` is kept.
pub fn key(accuser: Rank) -> String {
    format!("blame/{accuser}")
}

/// Notes that `accuser` cannot go on because of `culprit`.
pub fn accuse(store: &mut impl Store, accuser: Rank, culprit: Rank) -> Result<()> {
    store.put(&key(accuser), culprit.to_string().as_bytes())
}

/// Takes an earlier note back, because the job goes on.
pub fn withdraw(store: &mut impl Store, accuser: Rank) -> Result<()> {
    store.put(&key(accuser), b"")
}

/// Who is named by a note; nobody if it was withdrawn or makes no sense.
pub fn culprit(note: &[u8]) -> Option<Rank> {
    std::str::from_utf8(note).ok()?.parse().ok().map(Rank::new)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::MemoryStore;

    #[test]
    fn notes_can_be_read_and_taken_back() {
        let mut store = MemoryStore::new();
        accuse(&mut store, Rank::new(3), Rank::new(1)).unwrap();
        let read = |store: &mut MemoryStore| store.get("blame/3", Duration::ZERO).unwrap();
        assert_eq!(culprit(&read(&mut store)), Some(Rank::new(1)));
        withdraw(&mut store, Rank::new(3)).unwrap();
        assert_eq!(culprit(&read(&mut store)), None);
        assert_eq!(culprit(b"-1"), None);
    }
}
