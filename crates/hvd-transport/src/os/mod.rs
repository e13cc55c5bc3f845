//! System calls behind checked functions, one kind per file. Knows nothing of ranks; everything
//! above it is written without `unsafe`, except where shared memory is read and written.

pub(crate) mod event;
pub(crate) mod futex;
pub(crate) mod memory;
pub(crate) mod send_fd;
pub(crate) mod socket;
