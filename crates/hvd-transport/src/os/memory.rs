//! Memory that processes of one host share: an anonymous file, mapped.
//!
//! Owns every raw pointer into it. Offsets are checked here, on each access, whatever the caller
//! computed; that an area is not written by one and read by another at the same time is the
//! caller's promise (see [`crate::shm`]).

#![expect(unsafe_code, reason = "mapped memory is reached through raw pointers")]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A file without a name, of a size that no process can change any more. Its memory is zero, and
/// exists from the first write on.
pub(crate) fn create(name: &str, length: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, length as u64)?;
    // A peer that shrank the file would kill every rank at its next access.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Memory shared with other processes, as long as this value lives.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to the mapping, not to a thread; all access is by atomics or by
// functions whose callers promise that nothing else accesses the same area.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the whole of `file`.
    pub(crate) fn new(file: BorrowedFd<'_>) -> io::Result<Self> {
        let length = usize::try_from(fstat(file)?.st_size).map_err(io::Error::other)?;
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address, so nothing that exists is mapped over.
        let base = unsafe { mmap(ptr::null_mut(), length, access, kind, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The word at `offset`.
    ///
    /// # Panics
    /// If it does not lie in the mapping, or not on a multiple of four.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        let pointer = self.pointer(offset, 4);
        assert!(offset.is_multiple_of(4), "a shared word lies at {offset}");
        // SAFETY: in bounds and aligned (the base is a page's start), alive as long as `self`, and
        // only ever accessed as an atomic.
        unsafe { pointer.cast::<AtomicU32>().as_ref() }
    }

    /// The long word at `offset`.
    ///
    /// # Panics
    /// If it does not lie in the mapping, or not on a multiple of eight.
    pub(crate) fn long(&self, offset: usize) -> &AtomicU64 {
        let pointer = self.pointer(offset, 8);
        assert!(
            offset.is_multiple_of(8),
            "a shared long word lies at {offset}"
        );
        // SAFETY: as in `word`.
        unsafe { pointer.cast::<AtomicU64>().as_ref() }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Safety
    /// No thread of this process may access the area until it is told, with release and acquire
    /// ordering, that the bytes are there; nor may the area hold atomics.
    ///
    /// # Panics
    /// If the area does not lie in the mapping.
    pub(crate) unsafe fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let pointer = self.pointer(offset, bytes.len());
        // SAFETY: the area is in bounds, nothing else accesses it, and `bytes` cannot overlap it,
        // because no reference into it is ever made.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), pointer.as_ptr(), bytes.len()) };
    }

    /// Copies from `offset` into `buffer`.
    ///
    /// # Safety
    /// No thread of this process may write to the area until it is told, with release and acquire
    /// ordering, that the bytes are taken; nor may the area hold atomics.
    ///
    /// # Panics
    /// If the area does not lie in the mapping.
    pub(crate) unsafe fn copy_out(&self, offset: usize, buffer: &mut [u8]) {
        let pointer = self.pointer(offset, buffer.len());
        // SAFETY: as in `copy_in`.
        unsafe { ptr::copy_nonoverlapping(pointer.as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
    }

    /// The `length` bytes at `offset`, where they are.
    ///
    /// # Safety
    /// As long as the slice lives, nothing may write to the area, and it holds no atomics.
    ///
    /// # Panics
    /// If the area does not lie in the mapping.
    pub(crate) unsafe fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        let pointer = self.pointer(offset, length);
        // SAFETY: in bounds, always initialised, alive as long as `self`, and nothing writes to it.
        unsafe { slice::from_raw_parts(pointer.as_ptr(), length) }
    }

    /// The `length` bytes at `offset`, to write where they are.
    ///
    /// # Safety
    /// As long as the slice lives, nothing else may access the area, and it holds no atomics.
    ///
    /// # Panics
    /// If the area does not lie in the mapping.
    #[expect(
        clippy::mut_from_ref,
        reason = "many areas of one mapping are in use at a time; that they differ is the caller's promise"
    )]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, length: usize) -> &mut [u8] {
        let pointer = self.pointer(offset, length);
        // SAFETY: in bounds, always initialised, alive as long as `self`, and accessed by nothing
        // else.
        unsafe { slice::from_raw_parts_mut(pointer.as_ptr(), length) }
    }

    fn pointer(&self, offset: usize, length: usize) -> NonNull<u8> {
        let end = offset.checked_add(length);
        assert!(
            end.is_some_and(|end| end <= self.length),
            "{length} bytes at {offset}"
        );
        // SAFETY: the assertion keeps the result inside the mapping.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, made by `new`; every reference into it borrowed from `self`.
        // The system refuses only what is not a mapping.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn two_mappings_of_a_file_are_the_same_memory() {
        let file = create("hvd-test", 8192).unwrap();
        let (one, two) = (
            Mapping::new(file.as_fd()).unwrap(),
            Mapping::new(file.as_fd()).unwrap(),
        );
        assert_eq!(one.length(), 8192);
        one.word(4).store(7, Relaxed);
        assert_eq!(two.word(4).load(Relaxed), 7);
        // SAFETY: one thread, and no atomics there.
        unsafe { one.copy_in(8189, b"end") };
        let mut seen = [0; 3];
        // SAFETY: as above.
        unsafe { two.copy_out(8189, &mut seen) };
        assert_eq!(&seen, b"end");
        assert!(ftruncate(&file, 0).is_err(), "the size is sealed");
    }

    #[test]
    #[should_panic(expected = "8 bytes at 4090")]
    fn an_access_across_the_end_is_caught() {
        let file = create("hvd-test", 4096).unwrap();
        Mapping::new(file.as_fd()).unwrap().long(4090);
    }
}
