//! The way of an op into the engine and back: one tensor, or several as a group.

use std::sync::Arc;

use hvd_engine::{OperationOutput, Submission, current_worker};

use crate::error::{Error, Result};
use crate::ffi::{InputTensor, KernelCall};

/// Submits what `prepare` makes of the call, and finishes the call with what `conclude` makes of
/// the result.
pub(super) fn run(
    call: KernelCall,
    prepare: impl FnOnce(&KernelCall) -> Result<Submission>,
    conclude: impl FnOnce(&KernelCall, OperationOutput) -> Result<()> + Send + 'static,
) {
    let prepared = current_worker()
        .map_err(Error::from)
        .and_then(|worker| Ok((prepare(&call)?, worker)));
    match prepared {
        Err(error) => call.finish(Err(error)),
        Ok((submission, worker)) => {
            worker
                .engine()
                .submit_with_callback(submission, move |result| {
                    let result = result.map_err(Error::from);
                    call.finish(result.and_then(|outcome| conclude(&call, outcome)));
                });
        }
    }
}

/// As [`run`], for all inputs of a call together. `prepare` gets each input.
pub(super) fn run_group(
    call: KernelCall,
    name: &Arc<str>,
    prepare: impl Fn(&KernelCall, &InputTensor, usize) -> Result<Submission>,
    conclude: impl FnOnce(&KernelCall, &[InputTensor], &[OperationOutput]) -> Result<()>
    + Send
    + 'static,
) {
    let prepared = current_worker().map_err(Error::from).and_then(|worker| {
        let inputs = (0..call.count()?)
            .map(|index| call.input(index))
            .collect::<Result<Vec<_>>>()?;
        let submissions = inputs
            .iter()
            .enumerate()
            .map(|(index, input)| prepare(&call, input, index))
            .collect::<Result<Vec<_>>>()?;
        Ok((worker, inputs, submissions))
    });
    match prepared {
        Err(error) => call.finish(Err(error)),
        Ok((worker, inputs, submissions)) => {
            let then = move |result: hvd_engine::Result<Vec<OperationOutput>>| {
                let result = result.map_err(Error::from);
                call.finish(result.and_then(|outcomes| conclude(&call, &inputs, &outcomes)));
            };
            let engine = worker.engine();
            engine.submit_group_with_callback(name, submissions, then);
        }
    }
}

/// Makes the results of a group its outputs.
pub(super) fn set_outputs(
    call: &KernelCall,
    inputs: &[InputTensor],
    outcomes: &[OperationOutput],
) -> Result<()> {
    let mut results = inputs.iter().zip(outcomes).enumerate();
    results.try_for_each(|(index, (input, outcome))| call.set_output(index, input.dtype, outcome))
}
