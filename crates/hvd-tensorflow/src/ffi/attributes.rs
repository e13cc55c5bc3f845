//! The attributes of a node, as its kernel sees them when it is made.

use std::ffi::CStr;

use super::api::{Api, TfConstruction};
use super::status::Status;
use crate::error::Result;

/// A node that gets its kernel.
pub(crate) struct Attributes<'a> {
    api: &'static Api,
    raw: &'a mut TfConstruction,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(api: &'static Api, raw: &'a mut TfConstruction) -> Self {
        Self { api, raw }
    }

    /// The name of the node in its graph; the name of the op outside of graphs.
    pub(crate) fn node_name(&mut self) -> String {
        // SAFETY: the construction is valid while `self` borrows it.
        let view = unsafe { (self.api.node_name)(self.raw) };
        if view.data.is_null() {
            return String::new();
        }
        // SAFETY: the view is of `len` bytes that belong to the node, which lives longer than this
        // function.
        let bytes = unsafe { std::slice::from_raw_parts(view.data.cast::<u8>(), view.len) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// A text.
    pub(crate) fn string(&mut self, name: &CStr) -> Result<String> {
        let status = Status::new(self.api);
        let (mut items, mut bytes) = (0_i32, 0_i32);
        // SAFETY: the construction is valid, the name ends with a zero, the numbers are ours.
        unsafe {
            (self.api.attribute_size)(
                self.raw,
                name.as_ptr(),
                &raw mut items,
                &raw mut bytes,
                status.raw(),
            );
        }
        status.check()?;
        let mut text = vec![0_u8; usize::try_from(bytes).unwrap_or(0)];
        // SAFETY: as above; no more than the length of `text` is written.
        unsafe {
            (self.api.attribute_string)(
                self.raw,
                name.as_ptr(),
                text.as_mut_ptr().cast(),
                text.len(),
                status.raw(),
            );
        }
        status.check()?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// A whole number.
    pub(crate) fn int(&mut self, name: &CStr) -> Result<i64> {
        let status = Status::new(self.api);
        let mut value = 0;
        // SAFETY: the construction is valid, the name ends with a zero, the number is ours.
        unsafe {
            (self.api.attribute_int)(self.raw, name.as_ptr(), &raw mut value, status.raw());
        }
        status.check().map(|()| value)
    }

    /// A number.
    pub(crate) fn float(&mut self, name: &CStr) -> Result<f32> {
        let status = Status::new(self.api);
        let mut value = 0.0;
        // SAFETY: the construction is valid, the name ends with a zero, the number is ours.
        unsafe {
            (self.api.attribute_float)(self.raw, name.as_ptr(), &raw mut value, status.raw());
        }
        status.check().map(|()| value)
    }

    /// A truth value.
    pub(crate) fn bool(&mut self, name: &CStr) -> Result<bool> {
        let status = Status::new(self.api);
        let mut value = 0_u8;
        // SAFETY: the construction is valid, the name ends with a zero, the number is ours.
        unsafe {
            (self.api.attribute_bool)(self.raw, name.as_ptr(), &raw mut value, status.raw());
        }
        status.check().map(|()| value != 0)
    }
}
