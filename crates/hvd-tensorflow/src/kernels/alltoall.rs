//! Alltoall: each rank sends some of its rows to every rank.

use hvd_engine::OperationOutput;
use hvd_types::{OpKind, Shape};

use super::options::CollectiveOptions;
use super::submit::run;
use crate::error::{Error, Result};
use crate::ffi::{Attributes, Definition, Kernel, KernelCall, ShapeRule};

/// Alltoall. Without splits, which are then empty, ranks get equal parts.
pub(super) struct Alltoall(CollectiveOptions);

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
        CollectiveOptions::new(attributes).map(Self)
    }

    fn start(&self, call: KernelCall) {
        let input = match call.input(0) {
            Ok(input) => input,
            Err(error) => return call.finish(Err(error)),
        };
        let dtype = input.dtype;
        let prepare = |call: &KernelCall| {
            let mut submission = self.0.submission(OpKind::Alltoall, &input);
            submission.splits = splits(&call.numbers(1)?)?;
            submission.target = call.output_with_rows_like(0, &input);
            Ok(submission)
        };
        run(call, prepare, move |call, outcome: OperationOutput| {
            call.set_output(0, dtype, &outcome)?;
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
