//! Blame: a value that a rank puts into the store when it cannot continue because of another rank.
//!
//! When one rank raises, exits or hangs, the others fail because of it, and any of them may be the
//! first whose process ends. The launcher reads these values to report the cause and not a
//! consequence.

use hvd_types::Rank;

use crate::{Result, Store};

/// The key of `accuser`'s value.
pub fn key(accuser: Rank) -> String {
    format!("blame/{accuser}")
}

/// Records that `accuser` cannot continue because of `culprit`.
pub fn accuse(store: &mut impl Store, accuser: Rank, culprit: Rank) -> Result<()> {
    store.put(&key(accuser), culprit.to_string().as_bytes())
}

/// Withdraws an earlier value, because the job continues.
pub fn withdraw(store: &mut impl Store, accuser: Rank) -> Result<()> {
    store.put(&key(accuser), b"")
}

/// The rank that a value names; none if it was withdrawn or is malformed.
pub fn culprit(value: &[u8]) -> Option<Rank> {
    std::str::from_utf8(value).ok()?.parse().ok().map(Rank::new)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::MemoryStore;

    #[test]
    fn blame_can_be_read_and_withdrawn() {
        let mut store = MemoryStore::new();
        accuse(&mut store, Rank::new(3), Rank::new(1)).unwrap();
        let read = |store: &mut MemoryStore| store.get("blame/3", Duration::ZERO).unwrap();
        assert_eq!(culprit(&read(&mut store)), Some(Rank::new(1)));
        withdraw(&mut store, Rank::new(3)).unwrap();
        assert_eq!(culprit(&read(&mut store)), None);
        assert_eq!(culprit(b"-1"), None);
    }
}
