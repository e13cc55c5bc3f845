//! Barrier: waits for all ranks of a process set.

use hvd_engine::Submission;
use hvd_types::ProcessSetId;

use super::options::process_set;
use super::submit::run;
use crate::error::Result;
use crate::ffi::{Attributes, Definition, Kernel, KernelCall, ShapeRule};

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

    fn start(&self, call: KernelCall) {
        let prepare = |_: &KernelCall| Ok(Submission::barrier(self.0));
        run(call, prepare, |_, _| Ok(()));
    }
}
