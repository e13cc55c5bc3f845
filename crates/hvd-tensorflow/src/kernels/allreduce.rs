//! Allreduce: tensors of all ranks become one of the same shape, in place if TensorFlow lets us.

use hvd_types::OpKind;

use super::options::{CollectiveOptions, ReductionOptions};
use super::submit::{run, run_group};
use crate::error::Result;
use crate::ffi::{Attributes, Definition, Kernel, KernelCall, ShapeRule};

/// One tensor.
pub(super) struct Allreduce {
    options: CollectiveOptions,
    reduction: ReductionOptions,
}

impl Kernel for Allreduce {
    const DEFINITION: Definition = Definition {
        name: c"HorovodAllreduce",
        attributes: &[
            c"T: {uint8, int8, int32, int64, float16, bfloat16, float32, float64}",
            c"reduce_op: int",
            c"prescale_factor: float",
            c"postscale_factor: float",
            c"ignore_name_scope: bool = false",
            c"process_set_id: int = 0",
            c"tensor_name: string = ''",
        ],
        inputs: &[c"tensor: T"],
        outputs: &[c"sum: T"],
        shapes: ShapeRule::AsInputs,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        Ok(Self {
            options: CollectiveOptions::new(attributes)?,
            reduction: ReductionOptions::new(attributes)?,
        })
    }

    fn start(&self, call: KernelCall) {
        let prepare = |call: &KernelCall| {
            let input = call.input(0)?;
            let mut submission = self.options.submission(OpKind::Allreduce, &input);
            submission.target = call.output_like(&input)?;
            Ok(self.reduction.apply(submission))
        };
        run(call, prepare, |_, _| Ok(()));
    }
}

/// Several tensors, together.
pub(super) struct GroupedAllreduce(Allreduce);

impl Kernel for GroupedAllreduce {
    const DEFINITION: Definition = Definition {
        name: c"HorovodGroupedAllreduce",
        attributes: &[
            c"T: {uint8, int8, int32, int64, float16, bfloat16, float32, float64}",
            c"reduce_op: int",
            c"prescale_factor: float",
            c"postscale_factor: float",
            c"ignore_name_scope: bool = false",
            c"num_tensors: int",
            c"process_set_id: int = 0",
            c"tensor_name: string = ''",
        ],
        inputs: &[c"tensors: num_tensors*T"],
        outputs: &[c"sum: num_tensors*T"],
        shapes: ShapeRule::AsInputs,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        Allreduce::new(attributes).map(Self)
    }

    fn start(&self, call: KernelCall) {
        let Allreduce { options, reduction } = &self.0;
        let prepare = |call: &KernelCall, input: &_, _| {
            let mut submission = options.submission(OpKind::Allreduce, input);
            submission.target = call.output_like(input)?;
            Ok(reduction.apply(submission))
        };
        run_group(call, &options.name, prepare, |_, _, _| Ok(()));
    }
}
