//! Ops without tensors: barrier and join.

use hvd_engine::Submission;
use hvd_types::{ProcessSetId, Shape};

use super::common::{process_set, run};
use crate::error::Result;
use crate::ffi::{Attributes, Call, Definition, Kernel, ShapeRule};

/// Waits until every rank of the process set has come here.
pub(super) struct Barrier(ProcessSetId);

impl Kernel for Barrier {
    const DEFINITION: Definition = Definition {
        name: c"HorovodBarrier",
        attributes: &[c"process_set_id: int = 0"],
        inputs: &[],
        outputs: &[],
        shapes: ShapeRule::Nothing,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        process_set(attributes).map(Self)
    }

    fn start(&self, call: Call) {
        let prepare = |_: &Call| Ok(Submission::barrier(self.0));
        run(call, prepare, |_, _| Ok(()));
    }
}

/// Takes part in what others reduce until every rank has joined; gives the last one.
pub(super) struct Join;

impl Kernel for Join {
    const DEFINITION: Definition = Definition {
        name: c"HorovodJoin",
        attributes: &[],
        inputs: &[],
        outputs: &[c"output: int32"],
        shapes: ShapeRule::Scalar,
    };

    fn new(_attributes: &mut Attributes<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn start(&self, call: Call) {
        let prepare = |_: &Call| Ok(Submission::join());
        run(call, prepare, |call, outcome| {
            let last = outcome.number.and_then(|number| i32::try_from(number).ok());
            call.set_numbers(0, &Shape::default(), &[last.unwrap_or(-1)])
        });
    }
}
