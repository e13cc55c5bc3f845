//! Reducescatter and alltoall: each rank gets rows of its own.

use hvd_engine::OperationOutput;
use hvd_types::{OpKind, Shape};

use super::common::{Meeting, Reduction, run, run_group};
use super::gather::place_all;
use crate::error::{Error, Result};
use crate::ffi::{Attributes, Call, Definition, Input, Kernel, ShapeRule};

/// Reducescatter of one tensor.
pub(super) struct Reducescatter {
    meeting: Meeting,
    reduction: Reduction,
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
            meeting: Meeting::new(attributes)?,
            reduction: Reduction::new(attributes)?,
        })
    }

    fn start(&self, call: Call) {
        let input = match call.input(0) {
            Ok(input) => input,
            Err(error) => return call.finish(Err(error)),
        };
        let dtype = input.dtype;
        let prepare = |call: &Call| {
            let mut submission = self.meeting.submission(OpKind::Reducescatter, &input);
            submission.target = call.rows_like(0, &input);
            Ok(self.reduction.apply(submission))
        };
        run(call, prepare, move |call, outcome| {
            call.place(0, dtype, &outcome)
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

    fn start(&self, call: Call) {
        let Reducescatter { meeting, reduction } = &self.0;
        let prepare = |call: &Call, input: &Input, index| {
            let mut submission = meeting.submission(OpKind::Reducescatter, input);
            submission.target = call.rows_like(index, input);
            Ok(reduction.apply(submission))
        };
        run_group(call, &meeting.name, prepare, place_all);
    }
}

/// Alltoall. Without splits, which are then empty, ranks get equal parts.
pub(super) struct Alltoall(Meeting);

impl Kernel for Alltoall {
    const DEFINITION: Definition = Definition {
        name: c"HorovodAlltoall",
        attributes: &[
            c"T: {uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32, float64, bool}",
            c"ignore_name_scope: bool = false",
            c"process_set_id: int = 0",
            c"tensor_name: string = ''",
        ],
        inputs: &[c"tensor: T", c"splits: int32"],
        outputs: &[c"output: T", c"received_splits: int32"],
        shapes: ShapeRule::OtherRowsAndVector,
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
            let mut submission = self.0.submission(OpKind::Alltoall, &input);
            submission.splits = splits(&call.numbers(1)?)?;
            submission.target = call.rows_like(0, &input);
            Ok(submission)
        };
        run(call, prepare, move |call, outcome: OperationOutput| {
            call.place(0, dtype, &outcome)?;
            let received = received(&outcome.received_splits)?;
            call.set_numbers(1, &Shape::new([received.len() as u64]), &received)
        });
    }
}

fn splits(numbers: &[i32]) -> Result<Vec<u64>> {
    let negative = |number| Error::Argument(format!("alltoall: {number} rows cannot be sent"));
    let split = |&number| u64::try_from(number).map_err(|_| negative(number));
    numbers.iter().map(split).collect()
}

fn received(numbers: &[u64]) -> Result<Vec<i32>> {
    let large = |_| Error::Argument("alltoall: more than 2^31 rows came from one rank".to_owned());
    let split = |&number| i32::try_from(number).map_err(large);
    numbers.iter().map(split).collect()
}
