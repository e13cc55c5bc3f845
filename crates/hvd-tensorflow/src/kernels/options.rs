//! Attributes that several ops have: the tensor's name, the process set, how to reduce and scale.

use std::sync::Arc;

use hvd_engine::Submission;
use hvd_types::{OpKind, ProcessSetId, ReduceOp};

use crate::error::{Error, Result};
use crate::ffi::{Attributes, InputTensor, KernelCall};

/// The name that the ranks agree on, and the process set.
#[derive(Debug)]
pub(super) struct CollectiveOptions {
    pub(super) name: Arc<str>,
    pub(super) process_set: ProcessSetId,
}

impl CollectiveOptions {
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

    /// The submission of an input with these options.
    pub(super) fn submission(&self, kind: OpKind, input: &InputTensor) -> Submission {
        let source = KernelCall::source(input);
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

/// How a node reduces and scales its inputs.
#[derive(Debug)]
pub(super) struct ReductionOptions {
    op: ReduceOp,
    prescale: f32,
    postscale: f32,
}

impl ReductionOptions {
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
