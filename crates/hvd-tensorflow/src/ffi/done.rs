//! The callback by which a kernel says that it is done, kept beyond the kernel's return.
//!
//! TensorFlow hands over a pointer to a `std::function<void()>` on its own stack, which is gone
//! when the kernel returns; the C API has no way to keep it. So it is moved out, as C++ moves it:
//! the bits are copied and the original is made empty. With GNU's standard library, the only one
//! that TensorFlow's Linux wheels are built for, a `std::function` is
//!
//! ```text
//! byte  0        16        24        32
//!       | storage | manager | invoker |
//! ```
//!
//! and is empty if its manager is null. What is stored can be moved by its bits: either it is small
//! and trivial, or the storage holds a pointer to it.

use std::ffi::c_int;
use std::ptr;

use super::api::{Api, TfDone};

/// `__destroy_functor` of `std::_Manager_operation`.
const DESTROY: c_int = 3;

type Manage = unsafe extern "C" fn(*mut [usize; 2], *const [usize; 2], c_int) -> bool;

/// The layout above.
#[repr(C)]
struct Function {
    storage: [usize; 2],
    manager: Option<Manage>,
    invoker: usize,
}

/// A callback that is run once, when this is dropped: TensorFlow waits for it in any case.
pub(super) struct Done {
    api: &'static Api,
    function: Box<Function>,
}

impl Done {
    /// Moves the callback out of the place where TensorFlow has it.
    ///
    /// # Safety
    /// `place` is what TensorFlow passed to the kernel's compute function, which has not returned.
    pub(super) unsafe fn take(api: &'static Api, place: *mut TfDone) -> Self {
        let empty = Function {
            storage: [0; 2],
            manager: None,
            invoker: 0,
        };
        // SAFETY: the caller's promise: a valid `std::function<void()>`, laid out as above, that
        // nothing else uses meanwhile. What is left in its place is a valid empty one.
        let function = unsafe { ptr::replace(place.cast::<Function>(), empty) };
        Self {
            api,
            function: Box::new(function),
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        let function: *mut Function = &raw mut *self.function;
        // SAFETY: a valid `std::function<void()>` that has not been called.
        unsafe { (self.api.run_done)(function.cast()) };
        let storage = &raw mut self.function.storage;
        if let Some(manage) = self.function.manager {
            // SAFETY: this is how its destructor destroys what it holds, once; nothing uses it
            // after that.
            unsafe { manage(storage, storage.cast_const(), DESTROY) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_a_std_function() {
        assert_eq!(size_of::<Function>(), 32);
        assert_eq!(std::mem::offset_of!(Function, manager), 16);
        assert_eq!(std::mem::offset_of!(Function, invoker), 24);
    }
}
