//! Reducescatter: each rank gets some rows of the reduced tensor.

use hvd_types::OpKind;

use super::options::{CollectiveOptions, ReductionOptions};
use super::submit::{run, run_group, set_outputs};
use crate::error::Result;
use crate::ffi::{Attributes, Definition, InputTensor, Kernel, KernelCall, ShapeRule};

/// Reducescatter of one tensor.
pub(super) struct Reducescatter {
    options: CollectiveOptions,
    reduction: ReductionOptions,
}

impl Kernel for Reducescatter {
    const DEFINITION: Definition = Definition {
        name: c"HorovodReducescatter",
        attributes: &[
            c"T: {int32, int64, float16, bfloat16, float32, float64}",
            c"reduce_op: int",
            c"prescale_factor: float",
            c"postscale_factor: float",
            c"ignore_name_scope: bool = false",
            c"process_set_id: int = 0",
            c"tensor_name: string = ''",
        ],
        inputs: &[c"tensor: T"],
        outputs: &[c"output: T"],
        shapes: ShapeRule::Rows,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        Ok(Self {
            options: CollectiveOptions::new(attributes)?,
            reduction: ReductionOptions::new(attributes)?,
        })
    }

    fn start(&self, call: KernelCall) {
        let input = match call.input(0) {
            Ok(input) => input,
            Err(error) => return call.finish(Err(error)),
        };
        let dtype = input.dtype;
        let prepare = |call: &KernelCall| {
            let mut submission = self.options.submission(OpKind::Reducescatter, &input);
            submission.target = call.output_with_rows_like(0, &input);
            Ok(self.reduction.apply(submission))
        };
        run(call, prepare, move |call, outcome| {
            call.set_output(0, dtype, &outcome)
        });
    }
}

/// Reducescatter of several tensors, together.
pub(super) struct GroupedReducescatter(Reducescatter);

impl Kernel for GroupedReducescatter {
    const DEFINITION: Definition = Definition {
        name: c"HorovodGroupedReducescatter",
        attributes: &[
            c"T: {int32, int64, float16, bfloat16, float32, float64}",
            c"reduce_op: int",
            c"prescale_factor: float",
            c"postscale_factor: float",
            c"ignore_name_scope: bool = false",
            c"num_tensors: int",
            c"process_set_id: int = 0",
            c"tensor_name: string = ''",
        ],
        inputs: &[c"tensors: num_tensors*T"],
        outputs: &[c"output: num_tensors*T"],
        shapes: ShapeRule::Rows,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        Reducescatter::new(attributes).map(Self)
    }

    fn start(&self, call: KernelCall) {
        let Reducescatter { options, reduction } = &self.0;
        let prepare = |call: &KernelCall, input: &InputTensor, index| {
            let mut submission = options.submission(OpKind::Reducescatter, input);
            submission.target = call.output_with_rows_like(index, input);
            Ok(reduction.apply(submission))
        };
        run_group(call, &options.name, prepare, set_outputs);
    }
}
