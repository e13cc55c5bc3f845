//! Objects that ranks pickle for each other: signed by their sender, checked before they are
//! unpickled. What is signed, `hvd-rendezvous/objects.rs` says.

use hvd_types::Rank;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{Error, Result};
use crate::session;

/// The tag of an object that this rank sends for the operation called `scope`.
#[pyfunction]
pub(crate) fn sign_object<'py>(
    py: Python<'py>,
    scope: &str,
    content: &[u8],
) -> Result<Bound<'py, PyBytes>> {
    let session = session::current()?;
    let rank = session.placement.rank;
    let tag = py.detach(|| session.objects.sign(scope, rank, content));
    Ok(PyBytes::new(py, &tag))
}

/// Raises unless `rank` has sent this object for the present use of `scope`.
#[pyfunction]
pub(crate) fn check_object(
    py: Python<'_>,
    scope: &str,
    rank: u32,
    content: &[u8],
    tag: &[u8],
) -> Result<()> {
    let session = session::current()?;
    let sender = Rank::new(rank);
    if py.detach(|| session.objects.is_genuine(scope, sender, content, tag)) {
        return Ok(());
    }
    let host = session.engine.topology().host_name(sender);
    Err(Error::ForeignObject {
        rank: sender,
        host: host.to_owned(),
        scope: scope.to_owned(),
    })
}

/// Says that the operation called `scope` is complete on this rank.
#[pyfunction]
pub(crate) fn object_done(scope: &str) -> Result<()> {
    session::current()?.objects.advance(scope);
    Ok(())
}
