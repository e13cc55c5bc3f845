//! Broadcast: the root's tensor everywhere, in place if TensorFlow lets us.

use hvd_types::{OpKind, Rank};

use super::options::CollectiveOptions;
use super::submit::run;
use crate::error::{Error, Result};
use crate::ffi::{Attributes, Definition, Kernel, KernelCall, ShapeRule};

/// One tensor.
pub(super) struct Broadcast {
    options: CollectiveOptions,
    root: Rank,
}

impl Kernel for Broadcast {
    const DEFINITION: Definition = Definition {
        name: c"HorovodBroadcast",
        attributes: &[
            c"T: {uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32, float64, bool}",
            c"root_rank: int",
            c"ignore_name_scope: bool = false",
            c"process_set_id: int = 0",
            c"tensor_name: string = ''",
        ],
        inputs: &[c"tensor: T"],
        outputs: &[c"output: T"],
        shapes: ShapeRule::AsInputs,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        let root = attributes.int(c"root_rank")?;
        let root = u32::try_from(root)
            .map_err(|_| Error::Argument(format!("broadcast: {root} is not a rank")))?;
        Ok(Self {
            options: CollectiveOptions::new(attributes)?,
            root: Rank::new(root),
        })
    }

    fn start(&self, call: KernelCall) {
        let prepare = |call: &KernelCall| {
            let input = call.input(0)?;
            let mut submission = self.options.submission(OpKind::Broadcast, &input);
            submission.target = call.output_like(&input)?;
            submission.root = self.root;
            Ok(submission)
        };
        run(call, prepare, |_, _| Ok(()));
    }
}
