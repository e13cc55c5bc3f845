//! Gives TensorFlow the ops of this extension module.

use pyo3::prelude::*;

use crate::error::Error;

/// Registers the ops with the TensorFlow that this process has loaded, and returns their names.
#[pyfunction]
pub(crate) fn tensorflow_register() -> PyResult<Vec<&'static str>> {
    hvd_tensorflow::register().map_err(Error::from)?;
    Ok(hvd_tensorflow::op_names())
}
