//! Allgather: the rows of all ranks. TensorFlow's memory is asked for when their number is known.

use hvd_types::OpKind;

use super::options::CollectiveOptions;
use super::submit::{run, run_group, set_outputs};
use crate::error::Result;
use crate::ffi::{Attributes, Definition, InputTensor, Kernel, KernelCall, ShapeRule};

/// One tensor.
pub(super) struct Allgather(CollectiveOptions);

impl Kernel for Allgather {
    const DEFINITION: Definition = Definition {
        name: c"HorovodAllgather",
        attributes: &[
            c"T: {uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32, float64, bool}",
            c"ignore_name_scope: bool = false",
            c"process_set_id: int = 0",
            c"tensor_name: string = ''",
        ],
        inputs: &[c"tensor: T"],
        outputs: &[c"output: T"],
        shapes: ShapeRule::OtherRows,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        CollectiveOptions::new(attributes).map(Self)
    }

    fn start(&self, call: KernelCall) {
        let input = match call.input(0) {
            Ok(input) => input,
            Err(error) => return call.finish(Err(error)),
        };
        let dtype = input.dtype;
        let prepare = |call: &KernelCall| {
            let mut submission = self.0.submission(OpKind::Allgather, &input);
            submission.target = call.output_with_rows_like(0, &input);
            Ok(submission)
        };
        run(call, prepare, move |call, outcome| {
            call.set_output(0, dtype, &outcome)
        });
    }
}

/// Several tensors, together.
pub(super) struct GroupedAllgather(CollectiveOptions);

impl Kernel for GroupedAllgather {
    const DEFINITION: Definition = Definition {
        name: c"HorovodGroupedAllgather",
        attributes: &[
            c"T: {uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32, float64, bool}",
            c"ignore_name_scope: bool = false",
            c"num_tensors: int",
            c"process_set_id: int = 0",
            c"tensor_name: string = ''",
        ],
        inputs: &[c"tensors: num_tensors*T"],
        outputs: &[c"output: num_tensors*T"],
        shapes: ShapeRule::OtherRows,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        CollectiveOptions::new(attributes).map(Self)
    }

    fn start(&self, call: KernelCall) {
        let prepare = |call: &KernelCall, input: &InputTensor, index| {
            let mut submission = self.0.submission(OpKind::Allgather, input);
            submission.target = call.output_with_rows_like(index, input);
            Ok(submission)
        };
        run_group(call, &self.0.name, prepare, set_outputs);
    }
}
