//! `horovod._core`: the engine and the launcher as a Python extension module, thin.
//!
//! The signatures and their contracts are in `python/horovod/_core.pyi`. Tensors arrive as
//! addresses ([`tensor`]); errors leave as exceptions ([`error`], and nowhere else); the GIL is
//! released round everything that may block.
//!
//! Must not know: any framework's API.

#![deny(unsafe_code)]

mod arguments;
mod autotune;
mod bootstrap;
mod collectives;
mod debug_endpoint;
mod error;
mod fork;
mod groups;
mod handles;
mod in_place;
mod jax;
mod launcher;
mod logging;
mod mpi;
mod mxnet;
mod objects;
mod process_sets;
mod session;
mod stack;
mod tensor;
mod tensorflow;
mod worker;

/// The extension module.
#[pyo3::pymodule]
mod _core {
    use hvd_types::DType;
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    #[pymodule_export]
    use super::bootstrap::{announce, init_timeout, leave_launcher, pmix_helper};
    #[pymodule_export]
    use super::collectives::{
        allgather, allreduce, alltoall, barrier, broadcast, join, reducescatter,
    };
    #[pymodule_export]
    use super::groups::{grouped_allgather, grouped_allreduce, grouped_reducescatter};
    #[pymodule_export]
    use super::handles::{AllocatedOutput, poll, wait};
    #[pymodule_export]
    use super::in_place::InPlace;
    #[pymodule_export]
    use super::jax::jax_handler;
    #[pymodule_export]
    use super::launcher::{run_commandline, store_get, store_put};
    #[pymodule_export]
    use super::mpi::{abort_mpi_if_failed, mpi_enabled, mpi_threads_supported};
    #[pymodule_export]
    use super::mxnet::{mxnet_collective, mxnet_load};
    #[pymodule_export]
    use super::objects::{check_object, object_done, sign_object};
    #[pymodule_export]
    use super::process_sets::{
        add_process_set, dynamic_process_sets, process_set_ids, process_set_ranks,
        remove_process_set,
    };
    #[pymodule_export]
    use super::session::{
        after_fork_in_child, counters, cross_rank, cross_ranks, cross_size, init, is_homogeneous,
        is_initialized, local_rank, local_ranks, local_size, rank, shutdown, size, start_timeline,
        stop_timeline, transport,
    };
    #[pymodule_export]
    use super::tensorflow::tensorflow_register;

    #[pymodule_init]
    fn prepare(module: &Bound<'_, PyModule>) -> PyResult<()> {
        hvd_engine::set_find_worker(super::worker::find);
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let dtypes = PyDict::new(module.py());
        for dtype in DType::ALL {
            dtypes.set_item(dtype.name(), dtype as u8)?;
        }
        module.add("DTYPES", dtypes)
    }
}
