//! Everything that touches TensorFlow's memory or calls its functions, behind safe types: the
//! loaded [`api`], op [`definition`]s with their shapes, the [`attributes`] of a node and one
//! [`call`] of its kernel.
//!
//! Must not know: what the ops do.

#![expect(
    unsafe_code,
    reason = "TensorFlow's C API is functions and pointers found at run time"
)]

mod api;
mod attributes;
mod call;
mod definition;
mod done;
mod shape;
mod status;

pub(crate) use attributes::Attributes;
pub(crate) use call::{InputTensor, KernelCall};
pub(crate) use definition::{Definition, Kernel, Registrar};
pub(crate) use shape::ShapeRule;
