//! Arrays in the layout of an accelerated operator.
//!
//! Where MXNet computes with oneDNN, an operator may keep an array in blocks that suit the processor
//! (the weights of a convolution after inference), and `MXNDArrayGetData` then pushes an operation
//! that brings it back in order and waits for it. Inside of an operation that has the array that
//! wait never ends. So arrays are put in order before their memory is asked for: by the operation
//! itself if it may write to the array, else by an operation that is pushed before it.
//!
//! The functions for it are not in the C API but methods of C++ without arguments, which the library
//! exports. Two of them belong to the part of an array that owns its memory, to which the first word
//! of an array points; [`Layouts::find`] makes sure of that.

use std::ffi::c_void;

use super::api::{Functions, LoadedLibrary, NdArray};
use crate::error::{Error, Result};

type IsPlain = unsafe extern "C" fn(*const c_void) -> bool;
type Method = unsafe extern "C" fn(*const c_void);

/// Functions of builds with oneDNN.
pub(super) struct Layouts {
    is_plain: IsPlain,
    reorder: Method,
    push_reorder: Method,
}

impl Layouts {
    /// `None` for a build without oneDNN.
    pub(super) fn find(library: &LoadedLibrary, functions: &Functions) -> Result<Option<Self>> {
        let Ok(push_reorder) = library.symbol(&[c"_ZNK5mxnet7NDArray20Reorder2DefaultAsyncEv"])
        else {
            return Ok(None);
        };
        let is_plain = library.symbol(&[c"_ZNK5mxnet7NDArray5Chunk9IsDefaultEv"])?;
        let reorder = library.symbol(&[c"_ZN5mxnet7NDArray5Chunk15Reorder2DefaultEv"])?;
        if !first_word_points_to_owner(functions)? {
            return Err(Error::UnknownLayout);
        }
        Ok(Some(Self {
            // SAFETY: the mangled name says `bool NDArray::Chunk::IsDefault() const`.
            is_plain: unsafe { std::mem::transmute::<*mut c_void, IsPlain>(is_plain) },
            // SAFETY: the mangled name says `NDArray::Chunk::Reorder2Default()`, which returns
            // nothing.
            reorder: unsafe { std::mem::transmute::<*mut c_void, Method>(reorder) },
            // SAFETY: the mangled name says `NDArray::Reorder2DefaultAsync() const`, which returns
            // nothing.
            push_reorder: unsafe { std::mem::transmute::<*mut c_void, Method>(push_reorder) },
        }))
    }

    /// What has an array's memory; slices of an array have the same.
    ///
    /// # Safety
    /// The array is valid.
    #[expect(clippy::unused_self, reason = "only `find` makes sure of the layout")]
    pub(super) unsafe fn owner(&self, array: NdArray) -> *const c_void {
        // SAFETY: the caller's promise.
        unsafe { owner(array) }
    }

    /// Whether an array is in order.
    ///
    /// # Safety
    /// The array is valid, and nothing writes to it.
    pub(super) unsafe fn is_plain(&self, array: NdArray) -> bool {
        // SAFETY: a valid array begins with a pointer to its owner, as `find` has checked.
        let owner = unsafe { owner(array) };
        // SAFETY: the owner lives as long as the array.
        owner.is_null() || unsafe { (self.is_plain)(owner) }
    }

    /// Brings an array in order.
    ///
    /// # Safety
    /// The array is valid, and nothing else reads it or writes to it.
    pub(super) unsafe fn reorder(&self, array: NdArray) {
        // SAFETY: a valid array begins with a pointer to its owner, as `find` has checked.
        let owner = unsafe { owner(array) };
        // SAFETY: the owner lives as long as the array, which is the caller's alone.
        unsafe { (self.reorder)(owner) };
    }

    /// Pushes an operation that brings an array in order before whatever is pushed after it.
    ///
    /// # Safety
    /// The array is valid.
    pub(super) unsafe fn push_reorder(&self, array: NdArray) {
        // SAFETY: the caller's promise.
        unsafe { (self.push_reorder)(array.cast_const()) };
    }
}

/// What the first word of an array points to.
///
/// # Safety
/// The array is valid.
unsafe fn owner(array: NdArray) -> *const c_void {
    // SAFETY: an array is larger than one word.
    unsafe { array.cast::<*const c_void>().read() }
}

/// Whether the first word of an array points to what has its memory: the first word there is the
/// address of the memory, which can be asked for as well.
fn first_word_points_to_owner(functions: &Functions) -> Result<bool> {
    let (mut array, mut data) = (std::ptr::null_mut(), std::ptr::null_mut());
    let dimension = 16_i64;
    // SAFETY: one dimension is given; the place for the result is ours.
    let code = unsafe { (functions.create)(&raw const dimension, 1, 1, 0, 0, 0, &raw mut array) };
    functions.check(code)?;
    // SAFETY: the array has just been made; the place for the result is ours.
    let code = unsafe { (functions.data)(array, &raw mut data) };
    functions.check(code)?;
    // SAFETY: the array is valid.
    let owner = unsafe { owner(array) };
    // SAFETY: if it is an address of this process's heap, as in every known version, it can be
    // read; `is_heap_like` keeps numbers that are none away.
    let found = is_heap_like(owner) && unsafe { owner.cast::<*mut c_void>().read() } == data;
    // SAFETY: the array is ours and not used any more.
    functions.check(unsafe { (functions.free)(array) })?;
    Ok(found && !data.is_null())
}

/// Whether a word may be a pointer to an object: aligned, and not a small number.
fn is_heap_like(word: *const c_void) -> bool {
    word.addr().is_multiple_of(size_of::<usize>()) && word.addr() > 1 << 16
}
