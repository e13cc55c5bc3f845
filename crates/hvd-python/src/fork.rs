//! What a forked child inherits and must let go of.

#![expect(unsafe_code, reason = "closing descriptors by number")]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Closes sockets of the parent's engine in a forked child, without telling the peers anything.
pub(crate) fn close_inherited(descriptors: &[RawFd]) {
    for &descriptor in descriptors {
        // SAFETY: these are this child's copies of the sockets that the parent's lifeline thread
        // owns. That thread does not exist here and its stack is never unwound, so nothing else
        // closes them, and the session they belonged to is forgotten without being dropped.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
}
