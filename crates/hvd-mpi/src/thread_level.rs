//! From how many threads MPI may be called.

/// What MPI provides, or is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// From the thread that initialized it, or from the program's only one.
    OneThread,
    /// From any thread, from one at a time in the whole program.
    Serialized,
    /// From any thread at any time.
    Multiple,
}
