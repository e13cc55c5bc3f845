//! How TensorFlow's functions say whether they succeeded.

use std::ffi::{CStr, CString};

use super::api::{Api, TfStatus};
use crate::error::{Error, Result, code};

/// A status of our own, to be filled by one call.
pub(super) struct Status {
    api: &'static Api,
    raw: *mut TfStatus,
}

impl Status {
    /// One that says "no error".
    pub(super) fn new(api: &'static Api) -> Self {
        // SAFETY: takes nothing and returns a status that is ours.
        let raw = unsafe { (api.new_status)() };
        Self { api, raw }
    }

    /// One that says what an error says.
    pub(super) fn of(api: &'static Api, error: &Error) -> Self {
        let status = Self::new(api);
        set(api, status.raw, error);
        status
    }

    /// For a call that fills it.
    pub(super) fn raw(&self) -> *mut TfStatus {
        self.raw
    }

    /// What the last call said.
    pub(super) fn check(&self) -> Result<()> {
        // SAFETY: the status is valid until it is dropped.
        let code = unsafe { (self.api.get_code)(self.raw) };
        if code == code::OK {
            return Ok(());
        }
        // SAFETY: as above; the text ends with a zero and belongs to the status.
        let text = unsafe { (self.api.message)(self.raw) };
        // SAFETY: `text` is valid until the status changes, which it does not before it is copied.
        let text = unsafe { CStr::from_ptr(text) };
        let message = text.to_string_lossy().into_owned();
        Err(Error::TensorFlow { code, message })
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        // SAFETY: it was made by `TF_NewStatus` and is deleted once.
        unsafe { (self.api.delete_status)(self.raw) };
    }
}

/// Writes an error to a status of TensorFlow's.
pub(super) fn set(api: &Api, status: *mut TfStatus, error: &Error) {
    // A text with a zero in it would end there; there is none in texts of ours.
    let text = CString::new(hvd_types::printable(&error.to_string()).as_ref()).unwrap_or_default();
    // SAFETY: callers pass a valid status, and TensorFlow copies the text.
    unsafe { (api.set_status)(status, error.code(), text.as_ptr()) };
}
