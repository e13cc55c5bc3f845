//! Gives JAX the handler of this extension module.

use pyo3::prelude::*;

/// The address of the function that compiled programs of JAX call.
#[pyfunction]
pub(crate) fn jax_handler() -> usize {
    hvd_jax::handler()
}
