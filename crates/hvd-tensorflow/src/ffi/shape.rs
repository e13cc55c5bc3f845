//! What TensorFlow may know about the shapes of results before an op has run.

use std::ffi::c_int;

use super::api::{Api, InferShapes, TfShape, TfShapeContext, TfStatus, api};
use super::status::{Status, set};
use crate::error::{Error, Result};

/// A rule for the shapes of an op's outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ShapeRule {
    /// Each output is like the input in the same place.
    AsInputs,
    /// Each output is like the input in the same place, with another number of rows.
    OtherRows,
    /// As `OtherRows`, and scalars are refused.
    Rows,
    /// The first output is like the first input, with another number of rows; the second is a
    /// vector.
    OtherRowsAndVector,
    /// One scalar.
    Scalar,
    /// There is no output.
    Nothing,
}

impl ShapeRule {
    /// The function that TensorFlow calls.
    pub(super) fn function(self) -> InferShapes {
        match self {
            Self::AsInputs => as_inputs,
            Self::OtherRows => other_rows,
            Self::Rows => rows,
            Self::OtherRowsAndVector => other_rows_and_vector,
            Self::Scalar => scalar,
            Self::Nothing => nothing,
        }
    }
}

extern "C" fn as_inputs(context: *mut TfShapeContext, status: *mut TfStatus) {
    infer(context, status, |inference| {
        inference.each(|inference, index| {
            let shape = inference.input(index)?;
            inference.set(index, &shape)
        })
    });
}

extern "C" fn other_rows(context: *mut TfShapeContext, status: *mut TfStatus) {
    infer(context, status, |inference| {
        inference.each(Inference::with_other_rows)
    });
}

extern "C" fn rows(context: *mut TfShapeContext, status: *mut TfStatus) {
    infer(context, status, |inference| {
        inference.each(|inference, index| {
            let shape = inference.input(index)?;
            if inference.rank(&shape) == Some(0) {
                return Err(Error::Argument(
                    "a scalar has no rows that could be scattered".to_owned(),
                ));
            }
            inference.with_other_rows(index)
        })
    });
}

extern "C" fn other_rows_and_vector(context: *mut TfShapeContext, status: *mut TfStatus) {
    infer(context, status, |inference| {
        inference.with_other_rows(0)?;
        let vector = inference.unknown_vector();
        inference.set(1, &vector)
    });
}

extern "C" fn scalar(context: *mut TfShapeContext, status: *mut TfStatus) {
    infer(context, status, |inference| {
        let scalar = inference.scalar();
        inference.set(0, &scalar)
    });
}

extern "C" fn nothing(_context: *mut TfShapeContext, _status: *mut TfStatus) {}

fn infer(
    context: *mut TfShapeContext,
    status: *mut TfStatus,
    rule: impl FnOnce(&Inference) -> Result<()>,
) {
    // TensorFlow calls this only for registered ops, and they were registered through the table.
    let Ok(api) = api() else { return };
    if let Err(error) = rule(&Inference { api, context }) {
        set(api, status, &error);
    }
}

/// One call of a rule.
struct Inference {
    api: &'static Api,
    context: *mut TfShapeContext,
}

/// A shape that this process must delete.
struct OwnedShape {
    api: &'static Api,
    raw: *mut TfShape,
}

impl Drop for OwnedShape {
    fn drop(&mut self) {
        // SAFETY: it was made for us and is deleted once.
        unsafe { (self.api.delete_shape)(self.raw) };
    }
}

impl Inference {
    fn each(&self, rule: impl Fn(&Self, c_int) -> Result<()>) -> Result<()> {
        // SAFETY: the context is valid while TensorFlow waits for the rule.
        let count = unsafe { (self.api.shape_inputs)(self.context) };
        (0..c_int::try_from(count).unwrap_or(0)).try_for_each(|index| rule(self, index))
    }

    fn empty(&self) -> OwnedShape {
        // SAFETY: takes nothing and returns a shape that is ours.
        let raw = unsafe { (self.api.new_shape)() };
        OwnedShape { api: self.api, raw }
    }

    fn input(&self, index: c_int) -> Result<OwnedShape> {
        let (shape, status) = (self.empty(), Status::new(self.api));
        // SAFETY: the context is valid while TensorFlow waits for the rule; the rest is ours.
        unsafe { (self.api.input_shape)(self.context, index, shape.raw, status.raw()) };
        status.check().map(|()| shape)
    }

    fn set(&self, index: c_int, shape: &OwnedShape) -> Result<()> {
        let status = Status::new(self.api);
        // SAFETY: as above; TensorFlow copies the shape.
        unsafe { (self.api.set_output_shape)(self.context, index, shape.raw, status.raw()) };
        status.check()
    }

    /// The number of dimensions, if it is known.
    fn rank(&self, shape: &OwnedShape) -> Option<i64> {
        // SAFETY: the context is valid while TensorFlow waits for the rule; the shape is ours.
        let known = unsafe { (self.api.rank_known)(self.context, shape.raw) };
        if known == 0 {
            return None;
        }
        // SAFETY: as above.
        Some(unsafe { (self.api.rank)(self.context, shape.raw) })
    }

    fn scalar(&self) -> OwnedShape {
        // SAFETY: the context is valid while TensorFlow waits for the rule.
        let raw = unsafe { (self.api.scalar_shape)(self.context) };
        OwnedShape { api: self.api, raw }
    }

    /// A vector whose length is not known, which is said by the length -1.
    fn unknown_vector(&self) -> OwnedShape {
        // SAFETY: as above.
        let raw = unsafe { (self.api.vector_shape)(self.context, usize::MAX) };
        OwnedShape { api: self.api, raw }
    }

    /// An output like its input, except for the first dimension.
    fn with_other_rows(&self, index: c_int) -> Result<()> {
        let shape = self.input(index)?;
        // The shape of an output that is not set is unknown.
        let Some(rank) = self.rank(&shape) else {
            return Ok(());
        };
        if rank == 0 {
            return Ok(());
        }
        let status = Status::new(self.api);
        let row = self.empty();
        // SAFETY: the context is valid while TensorFlow waits for the rule; the rest is ours.
        unsafe {
            (self.api.subshape)(self.context, shape.raw, 1, rank, row.raw, status.raw());
        }
        status.check()?;
        let (rows, whole) = (self.unknown_vector(), self.empty());
        // SAFETY: as above.
        unsafe {
            (self.api.concatenate_shapes)(self.context, rows.raw, row.raw, whole.raw, status.raw());
        }
        status.check()?;
        self.set(index, &whole)
    }
}
