//! What the ring and the doorbell ask of the operating system, made of what loom watches.

/// Memory that both ends see: two indexes, the two words of a doorbell, and a few bytes.
pub(crate) mod memory {
    #![expect(unsafe_code, reason = "the same interface as the real memory")]

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicU32, AtomicU64};

    /// Where the bytes of the ring begin.
    pub(crate) const BYTES: usize = 16;
    /// How many there are.
    pub(crate) const CAPACITY: usize = 2;

    pub(crate) struct Mapping {
        words: [AtomicU32; 2],
        longs: [AtomicU64; 2],
        bytes: [UnsafeCell<u8>; CAPACITY],
    }

    // SAFETY: loom tells every access to the cells that is not ordered, which is what is tested.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        pub(crate) fn new() -> Self {
            Self {
                words: [AtomicU32::new(0), AtomicU32::new(0)],
                longs: [AtomicU64::new(0), AtomicU64::new(0)],
                bytes: std::array::from_fn(|_| UnsafeCell::new(0)),
            }
        }

        pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
            &self.words[offset / 4]
        }

        pub(crate) fn long(&self, offset: usize) -> &AtomicU64 {
            &self.longs[offset / 8]
        }

        pub(crate) unsafe fn copy_in(&self, offset: usize, bytes: &[u8]) {
            for (cell, &byte) in self.bytes[offset - BYTES..].iter().zip(bytes) {
                cell.with_mut(|place| {
                    // SAFETY: loom gives a valid pointer, and has checked that nothing else uses
                    // it.
                    unsafe { *place = byte }
                });
            }
        }

        pub(crate) unsafe fn copy_out(&self, offset: usize, buffer: &mut [u8]) {
            for (cell, byte) in self.bytes[offset - BYTES..].iter().zip(buffer) {
                cell.with(|place| {
                    // SAFETY: loom gives a valid pointer, and has checked that nothing writes to
                    // it.
                    *byte = unsafe { *place };
                });
            }
        }
    }

    impl std::fmt::Debug for Mapping {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Mapping")
        }
    }
}

/// The kernel's futex: a word is compared, and the caller put to sleep, under a lock that any
/// thread that wakes takes too.
pub(crate) mod futex {
    use std::io;
    use std::time::Instant;

    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        static ref KERNEL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same interface as the real one"
    )]
    pub(crate) fn wait(word: &AtomicU32, value: u32, _: Option<Instant>) -> io::Result<bool> {
        let guard = KERNEL.0.lock().unwrap();
        // The kernel reads what is there now, never an older value.
        if word.fetch_add(0, Ordering::SeqCst) == value {
            drop(KERNEL.1.wait(guard).unwrap());
        }
        Ok(true)
    }

    pub(crate) fn wake(_: &AtomicU32) {
        let _guard = KERNEL.0.lock().unwrap();
        KERNEL.1.notify_all();
    }
}

/// A flag that is polled for.
pub(crate) mod event {
    use loom::sync::{Condvar, Mutex};

    pub(crate) struct Flag(Mutex<bool>, Condvar);

    impl Flag {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(false), Condvar::new())
        }

        pub(crate) fn raise(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_all();
        }

        /// What `poll` does, and lowering it.
        pub(crate) fn wait(&self) {
            let mut raised = self.0.lock().unwrap();
            while !*raised {
                raised = self.1.wait(raised).unwrap();
            }
            *raised = false;
        }
    }

    impl std::fmt::Debug for Flag {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Flag")
        }
    }
}
