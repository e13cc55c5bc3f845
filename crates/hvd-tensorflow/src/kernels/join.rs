//! Join: a rank that has no more data takes part in the reductions of the others.

use hvd_engine::Submission;
use hvd_types::Shape;

use super::submit::run;
use crate::error::Result;
use crate::ffi::{Attributes, Definition, Kernel, KernelCall, ShapeRule};

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

    fn start(&self, call: KernelCall) {
        let prepare = |_: &KernelCall| Ok(Submission::join());
        run(call, prepare, |call, outcome| {
            let last = outcome.number.and_then(|number| i32::try_from(number).ok());
            call.set_numbers(0, &Shape::default(), &[last.unwrap_or(-1)])
        });
    }
}
