//! The launcher's side: the `horovodrun` command, and the job's key-value store for
//! `horovod.run()`.

use std::time::Duration;

use hvd_config::{Environment, WorkerConfig};
use hvd_transport::{Store, open_store};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{Error, Result};

/// How long the store may take to answer a request that waits for no other rank.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);

/// Does what `horovodrun` does and returns its exit code.
#[pyfunction]
pub(crate) fn run_commandline(py: Python<'_>, arguments: Vec<String>) -> i32 {
    // The GIL stays held: the launcher forks before it does anything else, and the child must not
    // find it in the hands of a thread that does not exist there.
    let program = "horovodrun".to_owned();
    let argv: Vec<String> = std::iter::once(program).chain(arguments).collect();
    let interpreter = interpreter(py).unwrap_or_else(|_| "python3".to_owned());
    let python = hvd_cli::Python {
        interpreter: &interpreter,
        is_installed: &|package| is_installed(py, package),
        write_wheel: &|directory| {
            write_wheel(py, directory).map_err(|error| error.value(py).to_string())
        },
    };
    hvd_cli::run_with(&argv, &python)
}

/// Where this interpreter is.
fn interpreter(py: Python<'_>) -> PyResult<String> {
    py.import("sys")?.getattr("executable")?.extract()
}

/// Whether a Python package could be imported, without importing it.
fn is_installed(py: Python<'_>, package: &str) -> bool {
    let spec = py
        .import("importlib.util")
        .and_then(|importlib| importlib.call_method1("find_spec", (package,)));
    spec.is_ok_and(|spec| !spec.is_none())
}

/// Writes the installed package as a wheel.
fn write_wheel(py: Python<'_>, directory: &str) -> PyResult<hvd_cli::WrittenWheel> {
    let module = py.import("horovod.runner.wheel")?;
    let (path, to_install) = module.call_method1("write", (directory,))?.extract()?;
    Ok(hvd_cli::WrittenWheel { path, to_install })
}

/// Stores a value for the launcher or for other ranks.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "that is how arguments come from Python"
)]
pub(crate) fn store_put(py: Python<'_>, key: String, value: Vec<u8>) -> PyResult<()> {
    Ok(py.detach(|| store()?.put(&key, &value).map_err(Error::from))?)
}

/// Waits for a value.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "that is how arguments come from Python"
)]
pub(crate) fn store_get(
    py: Python<'_>,
    key: String,
    timeout_seconds: f64,
) -> PyResult<Bound<'_, PyBytes>> {
    let timeout = Duration::try_from_secs_f64(timeout_seconds).unwrap_or(STORE_TIMEOUT);
    let value = py.detach(|| store()?.get(&key, timeout).map_err(Error::from))?;
    Ok(PyBytes::new(py, &value))
}

fn store() -> Result<impl Store> {
    let config = WorkerConfig::read(&Environment::of_process())?;
    Ok(open_store(&config, STORE_TIMEOUT)?)
}
