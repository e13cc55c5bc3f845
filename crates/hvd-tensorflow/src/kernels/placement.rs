//! Ops that return ranks and sizes of this process at the time they run: an elastic job may have
//! changed since the graph was made.

use hvd_engine::{Worker, current_worker};
use hvd_types::{ProcessSetId, Shape};

use super::options::process_set;
use crate::error::{Error, Result};
use crate::ffi::{Attributes, Definition, Kernel, KernelCall, ShapeRule};

/// An op without inputs that gives one number.
macro_rules! fact {
    ($(#[$doc:meta])* $name:ident, $op:literal, $answer:expr) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl Kernel for $name {
            const DEFINITION: Definition = Definition {
                name: $op,
                attributes: &[],
                inputs: &[],
                outputs: &[c"output: int32"],
                shapes: ShapeRule::Scalar,
            };

            fn new(_attributes: &mut Attributes<'_>) -> Result<Self> {
                Ok(Self)
            }

            fn start(&self, call: KernelCall) {
                let answer: fn(&dyn Worker) -> u32 = $answer;
                reply(&call, |worker| Ok(answer(worker)));
            }
        }
    };
}

fact!(
    /// Number of this process in the job.
    Rank,
    c"HorovodRank",
    |worker| worker.placement().rank.number()
);
fact!(
    /// Number of this process on its host.
    LocalRank,
    c"HorovodLocalRank",
    |worker| worker.placement().local_rank
);
fact!(
    /// Number of processes on this host.
    LocalSize,
    c"HorovodLocalSize",
    |worker| worker.placement().local_size
);

/// Number of ranks of a process set.
pub(super) struct Size(ProcessSetId);

impl Kernel for Size {
    const DEFINITION: Definition = Definition {
        name: c"HorovodSize",
        attributes: &[c"process_set_id: int = 0"],
        inputs: &[],
        outputs: &[c"output: int32"],
        shapes: ShapeRule::Scalar,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        process_set(attributes).map(Self)
    }

    fn start(&self, call: KernelCall) {
        reply(&call, |worker| {
            let members = members(worker, self.0)?;
            Ok(u32::try_from(members.len()).unwrap_or(u32::MAX))
        });
    }
}

/// Whether this process is in a process set, as 1 or 0.
pub(super) struct ProcessSetIncluded(ProcessSetId);

impl Kernel for ProcessSetIncluded {
    const DEFINITION: Definition = Definition {
        name: c"HorovodProcessSetIncluded",
        attributes: &[c"process_set_id: int = 0"],
        inputs: &[],
        outputs: &[c"output: int32"],
        shapes: ShapeRule::Scalar,
    };

    fn new(attributes: &mut Attributes<'_>) -> Result<Self> {
        process_set(attributes).map(Self)
    }

    fn start(&self, call: KernelCall) {
        reply(&call, |worker| {
            let members = members(worker, self.0)?;
            Ok(u32::from(members.contains(&worker.placement().rank)))
        });
    }
}

fn members(worker: &dyn Worker, id: ProcessSetId) -> Result<std::sync::Arc<[hvd_types::Rank]>> {
    let members = worker.engine().process_sets().members(id);
    members.ok_or_else(|| Error::Argument(format!("process set {id} does not exist")))
}

fn reply(call: &KernelCall, answer: impl FnOnce(&dyn Worker) -> Result<u32>) {
    let number = current_worker()
        .map_err(Error::from)
        .and_then(|worker| answer(&*worker));
    let result = number.and_then(|number| {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        call.set_numbers(0, &Shape::default(), &[number])
    });
    call.finish(result);
}
