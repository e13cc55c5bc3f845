//! What the collectives have in common: a name, a process set, and the way into the engine.

use std::sync::Arc;

use hvd_engine::{OperationOutput, Submission};
use hvd_types::{OpKind, ProcessSetId, ReduceOp};

use crate::error::{Error, Result};
use crate::ffi::{Attributes, Call, Input};
use crate::worker;

/// What a node says about the ranks it meets, and where.
#[derive(Debug)]
pub(super) struct Meeting {
    pub(super) name: Arc<str>,
    pub(super) process_set: ProcessSetId,
}

impl Meeting {
    pub(super) fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        let given = attributes.string(c"tensor_name")?;
        let name = if given.is_empty() {
            attributes.node_name()
        } else {
            given
        };
        let bare = attributes.bool(c"ignore_name_scope")?;
        let name = if bare { without_scope(&name) } else { &name };
        Ok(Self {
            name: name.into(),
            process_set: process_set(attributes)?,
        })
    }

    /// A tensor on its way to this meeting.
    pub(super) fn submission(&self, kind: OpKind, input: &Input) -> Submission {
        let source = Call::source(input);
        Submission {
            name: Some(Arc::clone(&self.name)),
            process_set: self.process_set,
            ..Submission::new(kind, input.dtype, input.shape.clone(), source)
        }
    }
}

/// The part of a name after its last scope.
fn without_scope(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

/// The process set of a node.
pub(super) fn process_set(attributes: &mut Attributes<'_>) -> Result<ProcessSetId> {
    let number = attributes.int(c"process_set_id")?;
    let number = u32::try_from(number)
        .map_err(|_| Error::Argument(format!("process set {number} does not exist")))?;
    Ok(ProcessSetId::new(number))
}

/// How a node reduces and scales.
#[derive(Debug)]
pub(super) struct Reduction {
    op: ReduceOp,
    prescale: f32,
    postscale: f32,
}

impl Reduction {
    pub(super) fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        let number = attributes.int(c"reduce_op")?;
        let op = u8::try_from(number)
            .ok()
            .and_then(|number| ReduceOp::try_from(number).ok());
        let unknown = || Error::Argument(format!("{number} is not a reduction"));
        Ok(Self {
            op: op.ok_or_else(unknown)?,
            prescale: attributes.float(c"prescale_factor")?,
            postscale: attributes.float(c"postscale_factor")?,
        })
    }

    /// The submission of a tensor that is reduced like this.
    pub(super) fn apply(&self, submission: Submission) -> Submission {
        Submission {
            reduce_op: self.op,
            prescale: f64::from(self.prescale),
            postscale: f64::from(self.postscale),
            ..submission
        }
    }
}

/// Submits what `prepare` makes of the call, and finishes the call with what `conclude` makes of
/// the result.
pub(super) fn run(
    call: Call,
    prepare: impl FnOnce(&Call) -> Result<Submission>,
    conclude: impl FnOnce(&Call, OperationOutput) -> Result<()> + Send + 'static,
) {
    let prepared = worker::current().and_then(|worker| Ok((prepare(&call)?, worker)));
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
    call: Call,
    name: &Arc<str>,
    prepare: impl Fn(&Call, &Input, usize) -> Result<Submission>,
    conclude: impl FnOnce(&Call, &[Input], &[OperationOutput]) -> Result<()> + Send + 'static,
) {
    let prepared = worker::current().and_then(|worker| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_what_follows_the_last_scope() {
        assert_eq!(
            without_scope("a/b/HorovodAllreduce_x"),
            "HorovodAllreduce_x"
        );
        assert_eq!(without_scope("x"), "x");
    }
}
