//! Allgather: the rows of all ranks. TensorFlow's memory is asked for when their number is known.

use hvd_engine::OperationOutput;
use hvd_types::OpKind;

use super::common::{Meeting, run, run_group};
use crate::error::Result;
use crate::ffi::{Attributes, Call, Definition, Input, Kernel, ShapeRule};

/// One tensor.
pub(super) struct Allgather(Meeting);

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
        Meeting::new(attributes).map(Self)
    }

    fn start(&self, call: Call) {
        let input = match call.input(0) {
            Ok(input) => input,
            Err(error) => return call.finish(Err(error)),
        };
        let dtype = input.dtype;
        let prepare = |call: &Call| {
            let mut submission = self.0.submission(OpKind::Allgather, &input);
            submission.target = call.rows_like(0, &input);
            Ok(submission)
        };
        run(call, prepare, move |call, outcome| {
            call.place(0, dtype, &outcome)
        });
    }
}

/// Several tensors, together.
pub(super) struct GroupedAllgather(Meeting);

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
        Meeting::new(attributes).map(Self)
    }

    fn start(&self, call: Call) {
        let prepare = |call: &Call, input: &Input, index| {
            let mut submission = self.0.submission(OpKind::Allgather, input);
            submission.target = call.rows_like(index, input);
            Ok(submission)
        };
        run_group(call, &self.0.name, prepare, place_all);
    }
}

/// Makes the results of a group its outputs.
pub(super) fn place_all(call: &Call, inputs: &[Input], outcomes: &[OperationOutput]) -> Result<()> {
    let mut results = inputs.iter().zip(outcomes).enumerate();
    results.try_for_each(|(index, (input, outcome))| call.place(index, input.dtype, outcome))
}
