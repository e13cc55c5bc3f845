//! Process sets: which there are, and the collective changes.

use std::sync::Arc;

use hvd_engine::{Completion, SetChange};
use hvd_types::{ProcessSetId, Rank};
use pyo3::prelude::*;

use crate::error::{Error, Result};
use crate::handles::wait_for;
use crate::session::{self, known};

/// Adds a process set, together with all other ranks.
#[pyfunction]
pub(crate) fn add_process_set(py: Python<'_>, ranks: Vec<u32>) -> PyResult<u32> {
    let change = SetChange::Add(ranks.into_iter().map(Rank::new).collect());
    let completion = ask(change)?;
    let outcome = wait_for(py, &completion)?;
    Ok(outcome.number.unwrap_or_default())
}

/// Removes a process set, together with all other ranks.
#[pyfunction]
pub(crate) fn remove_process_set(py: Python<'_>, process_set: u32) -> PyResult<()> {
    let change = SetChange::Remove(ProcessSetId::new(process_set));
    let completion = ask(change)?;
    wait_for(py, &completion).map(drop)
}

fn ask(change: SetChange) -> Result<Arc<Completion>> {
    Ok(session::current()?.engine.change_process_sets(change)?)
}

/// The numbers of all process sets.
#[pyfunction]
pub(crate) fn process_set_ids() -> PyResult<Vec<u32>> {
    let session = known("process_set_ids()")?;
    let ids = session.engine.process_sets().ids();
    Ok(ids.into_iter().map(ProcessSetId::number).collect())
}

/// The ranks of a process set.
#[pyfunction]
pub(crate) fn process_set_ranks(process_set: u32) -> PyResult<Vec<u32>> {
    let session = known("process_set_ranks()")?;
    let members = session
        .engine
        .process_sets()
        .members(ProcessSetId::new(process_set));
    let members = members.ok_or(Error::UnknownProcessSet(process_set))?;
    Ok(members.iter().map(|rank| rank.number()).collect())
}

/// Whether sets may be added and removed after `init`.
#[pyfunction]
pub(crate) fn dynamic_process_sets() -> PyResult<bool> {
    Ok(known("dynamic_process_sets()")?.dynamic_process_sets)
}
