//! Memory that algorithms receive into, kept by the caller from one operation to the next so that
//! a steady stream of operations allocates nothing.

/// A cache line, and the widest vector register.
const ALIGNMENT: usize = 64;

/// A buffer that grows to the largest size asked for and then stays.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
}

impl Scratch {
    /// An empty buffer, which allocates nothing until it is used.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Whether so many bytes are there without allocating.
    pub fn holds(&self, length: usize) -> bool {
        self.bytes.len() >= length.saturating_add(ALIGNMENT - 1)
    }

    /// The first `length` bytes, aligned to 64. Their contents are whatever the last use left.
    pub fn bytes(&mut self, length: usize) -> &mut [u8] {
        if !self.holds(length) {
            let needed = length.saturating_add(ALIGNMENT - 1);
            // The old contents are not needed, so they are not carried over.
            self.bytes = Vec::new();
            self.bytes.resize(needed, 0);
        }
        let address = self.bytes.as_ptr().addr();
        let skipped = address.next_multiple_of(ALIGNMENT) - address;
        &mut self.bytes[skipped..skipped + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_does_not_move_once_it_is_large_enough() {
        let mut scratch = Scratch::new();
        assert!(scratch.bytes(0).is_empty());
        assert!(!scratch.holds(1000));
        let large = scratch.bytes(1000).as_ptr();
        assert_eq!(large.addr() % ALIGNMENT, 0);
        assert!(scratch.holds(1000));
        assert_eq!(scratch.bytes(1000).len(), 1000);
        assert_eq!(scratch.bytes(3).as_ptr(), large);
        assert_eq!(scratch.bytes(1000).as_ptr(), large);
    }
}
