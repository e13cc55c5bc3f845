//! Memory that the engine does not own: a framework's tensors, borrowed for the length of one
//! operation.
//!
//! This is the only place where an address becomes a slice. The promise made by the creator of a
//! borrowed [`TensorSource`] or [`TensorTarget`] is that the memory stays valid, and is not written
//! (source) or touched at all (target), until the operation's handle has completed.

#![expect(unsafe_code, reason = "tensors cross the language border as addresses")]

use std::fmt;

/// Memory an operation reads.
pub struct TensorSource(SourceKind);

enum SourceKind {
    Borrowed(*const u8, usize),
    Owned(Vec<u8>),
}

// SAFETY: the creator of a borrowed source promised that the memory is valid until completion,
// from whichever thread it is read; nothing else in here is tied to a thread.
unsafe impl Send for TensorSource {}

impl TensorSource {
    /// Memory of a tensor that lives elsewhere.
    ///
    /// # Safety `bytes` bytes at `address` stay readable and unchanged, except through a
    /// [`TensorTarget`] of the same operation, until the operation's handle has completed.
    pub unsafe fn borrowed(address: usize, bytes: usize) -> Self {
        Self(SourceKind::Borrowed(
            std::ptr::with_exposed_provenance(address),
            bytes,
        ))
    }

    /// Memory that the operation owns.
    pub fn owned(bytes: Vec<u8>) -> Self {
        Self(SourceKind::Owned(bytes))
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            SourceKind::Borrowed(_, bytes) => *bytes,
            SourceKind::Owned(bytes) => bytes.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes. Must not be held while a slice of a target at the same address exists; see
    /// [`TensorTarget::is_same_memory`].
    pub(crate) fn as_slice(&self) -> &[u8] {
        match &self.0 {
            SourceKind::Owned(bytes) => bytes,
            SourceKind::Borrowed(_, 0) => &[],
            SourceKind::Borrowed(address, bytes) => {
                // SAFETY: `TensorSource::borrowed` demands that this memory is readable until the
                // operation completes, and the engine drops the source before it completes it.
                unsafe { std::slice::from_raw_parts(*address, *bytes) }
            }
        }
    }
}

impl fmt::Debug for TensorSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorSource({} bytes)", self.len())
    }
}

/// Memory an operation writes.
pub struct TensorTarget(TargetKind);

enum TargetKind {
    Borrowed(*mut u8, usize),
    Provided(Provider),
    Allocate,
}

/// Gives the address of memory for a number of bytes, when the operation knows how many; `None` to
/// leave the allocation to the engine.
type Provider = Box<dyn FnOnce(usize) -> Option<usize> + Send>;

// SAFETY: the creator of a borrowed target promised that the memory is the operation's alone until
// completion, from whichever thread it is written.
unsafe impl Send for TensorTarget {}

impl TensorTarget {
    /// Memory of a tensor that lives elsewhere.
    ///
    /// # Safety
    /// `bytes` bytes at `address` stay writable and are touched by nothing else until the
    /// operation's handle has completed. They may be the same memory as the operation's source,
    /// but must not overlap it partly.
    pub unsafe fn borrowed(address: usize, bytes: usize) -> Self {
        Self(TargetKind::Borrowed(
            std::ptr::with_exposed_provenance_mut(address),
            bytes,
        ))
    }

    /// Memory that a framework allocates as soon as the length of the result is known.
    ///
    /// # Safety
    /// The address that `provide` returns is that of as many bytes as it was asked for, which stay
    /// writable and are touched by nothing else until the operation has completed.
    pub unsafe fn provided(provide: impl FnOnce(usize) -> Option<usize> + Send + 'static) -> Self {
        Self(TargetKind::Provided(Box::new(provide)))
    }

    /// The engine allocates the result and hands it over with the handle.
    pub fn allocate() -> Self {
        Self(TargetKind::Allocate)
    }

    /// The length of borrowed memory; `None` if the engine allocates.
    pub(crate) fn borrowed_len(&self) -> Option<usize> {
        match self.0 {
            TargetKind::Borrowed(_, bytes) => Some(bytes),
            TargetKind::Provided(_) | TargetKind::Allocate => None,
        }
    }

    /// Whether the operation is in place.
    pub(crate) fn is_same_memory(&self, source: &TensorSource) -> bool {
        match (&self.0, &source.0) {
            (TargetKind::Borrowed(target, _), SourceKind::Borrowed(source, _)) => {
                std::ptr::eq(target.cast_const(), *source)
            }
            _ => false,
        }
    }

    /// Memory of `bytes` bytes to write to: the borrowed one, whose length was checked at submit,
    /// or a new one.
    pub(crate) fn into_memory(self, bytes: usize) -> OutputMemory {
        match self.0 {
            TargetKind::Borrowed(address, bytes) => OutputMemory::Borrowed(address, bytes),
            TargetKind::Provided(provide) => match provide(bytes) {
                Some(address) => {
                    OutputMemory::Borrowed(std::ptr::with_exposed_provenance_mut(address), bytes)
                }
                None => OutputMemory::Owned(Buffer::zeroed(bytes)),
            },
            TargetKind::Allocate => OutputMemory::Owned(Buffer::zeroed(bytes)),
        }
    }
}

impl fmt::Debug for TensorTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorTarget({:?} bytes)", self.borrowed_len())
    }
}

/// A target whose operation has begun.
pub(crate) enum OutputMemory {
    Borrowed(*mut u8, usize),
    Owned(Buffer),
}

impl OutputMemory {
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Owned(buffer) => buffer.as_mut_slice(),
            Self::Borrowed(_, 0) => &mut [],
            Self::Borrowed(address, bytes) => {
                // SAFETY: `TensorTarget::borrowed` demands that this memory is the operation's
                // alone until completion, and the engine drops this before it completes it. A
                // source at the same address is never turned into a slice
                // (`TensorTarget::is_same_memory`).
                unsafe { std::slice::from_raw_parts_mut(*address, *bytes) }
            }
        }
    }

    /// What the engine allocated, if it did.
    pub(crate) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Owned(buffer) => Some(buffer),
            Self::Borrowed(..) => None,
        }
    }
}

/// Memory the engine allocated, aligned for every element type.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Buffer {
    words: Vec<u64>,
    bytes: usize,
}

impl Buffer {
    /// `bytes` bytes, all zero.
    pub fn zeroed(bytes: usize) -> Self {
        Self {
            words: vec![0; bytes.div_ceil(8)],
            bytes,
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    /// The bytes, to write to.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}
