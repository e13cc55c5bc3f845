//! Whether the ranks of a host read a large tensor out of each other's memory, and the count of
//! those that they have read so.
//!
//! Decided for each team, before its first large tensor, and alike on all members:
//!
//! 1. They agree on the most cautious wish among them, so it does no harm if their settings differ.
//! 2. They try. If the system does not allow it to one of them, none does it.
//! 3. If they want to know what is faster, they time both ways on memory of their own, in turns. The
//!    best time of each way counts, because whatever is slower had other reasons, and of those the
//!    largest of any member. Those two numbers are the same everywhere, so all choose alike.
//! 4. A machine may be busy with something else just then, which the way through shared memory
//!    suffers from more. Whoever reads by measurement therefore measures again, a few times in the
//!    life of a team, and stops for good when that says so once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use hvd_collectives::{
    Combine, Communicator, Reduction, Result, Tensor, TensorMemory, Workspace, direct_allreduce,
    shared_allreduce,
};
use hvd_types::{DType, Rank};

use crate::counters::Counters;

/// Bytes of the smallest tensor that is worth it: below, the meetings of the members count.
const LEAST: usize = 4 << 20;

/// Bytes of the tensor with which the ways are timed.
const SAMPLE: usize = 8 << 20;

/// How often each way is timed, after a first time that does not count.
const TIMES: usize = 5;

/// After how many operations since it was decided it is measured again.
const AGAIN: [u64; 3] = [8, 64, 512];

/// What a change of ways must save at least, as a part of the time: a measurement as short as this
/// one may be off by so much.
const MARGIN: f64 = 0.2;

/// Whether ranks of one host read large tensors out of each other's memory. The more cautious comes
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum DirectReads {
    /// They do not.
    #[default]
    Never,
    /// If the system allows it, and it is measured to be faster than the way through shared memory.
    IfFaster,
    /// If the system allows it.
    Always,
}

/// What the members of a team have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decision {
    /// `IfFaster` means that it was, and is to be measured again.
    reads: DirectReads,
    /// Operations since it was decided.
    operations: u64,
}

/// What was decided for each team so far.
#[derive(Debug)]
pub(super) struct Direct {
    pub(super) reads: DirectReads,
    decisions: HashMap<Arc<[Rank]>, Decision>,
    counters: Arc<Counters>,
}

impl Direct {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self {
            reads: DirectReads::default(),
            decisions: HashMap::new(),
            counters,
        }
    }

    /// Reduces one large tensor of `members`, who see the same memory, and multiplies the result by
    /// the factor, if they read each other's; else returns false and has done nothing.
    pub(super) fn allreduce(
        &mut self,
        comm: &mut Communicator<'_>,
        members: &Arc<[Rank]>,
        (combine, factor): (Combine, f64),
        tensors: &mut [Tensor<'_>],
        workspace: &mut Workspace,
    ) -> Result<bool> {
        let [tensor] = tensors else {
            return Ok(false);
        };
        if tensor.len() < LEAST {
            return Ok(false);
        }
        let decision = match self.decisions.get(members) {
            None => Decision {
                reads: choose(self.reads, comm, workspace)?,
                operations: 0,
            },
            Some(&decision) => decision.confirmed(comm, workspace)?,
        };
        let done = decision.reads != DirectReads::Never
            && direct_allreduce(comm, combine, factor, tensor, workspace)?;
        self.counters.direct_operations.add(u64::from(done));
        let decision = Decision {
            operations: decision.operations + 1,
            ..decision
        };
        self.decisions.insert(Arc::clone(members), decision);
        Ok(done)
    }
}

impl Decision {
    /// What holds for the next operation: the same, unless it is measured again and is not faster.
    fn confirmed(self, comm: &mut Communicator<'_>, workspace: &mut Workspace) -> Result<Self> {
        let again = self.reads == DirectReads::IfFaster && AGAIN.contains(&self.operations);
        if !again || is_faster(comm, workspace)? {
            return Ok(self);
        }
        Ok(Self {
            reads: DirectReads::Never,
            ..self
        })
    }
}

/// Whether the members of `comm`, all of whom must call, read each other's memory: the wish of all,
/// or `Never`.
fn choose(
    reads: DirectReads,
    comm: &mut Communicator<'_>,
    workspace: &mut Workspace,
) -> Result<DirectReads> {
    let least = Combine {
        dtype: DType::Uint8,
        reduction: Reduction::Min,
    };
    let mut wish = [reads as u8];
    hvd_collectives::allreduce(comm, least, &mut wish, workspace)?;
    let [wish] = wish;
    if wish == DirectReads::Never as u8 {
        return Ok(DirectReads::Never);
    }
    if run(Way::Direct, comm, &mut [0; 4], workspace)?.is_none() {
        tracing::debug!("the system does not let the ranks of this host read each other's memory");
        return Ok(DirectReads::Never);
    }
    if wish == DirectReads::Always as u8 {
        return Ok(DirectReads::Always);
    }
    let faster = is_faster(comm, workspace)?;
    Ok(if faster {
        DirectReads::IfFaster
    } else {
        DirectReads::Never
    })
}

/// Whether reading each other's memory is faster, the same answer on all members.
fn is_faster(comm: &mut Communicator<'_>, workspace: &mut Workspace) -> Result<bool> {
    let Some([shared, direct]) = time(comm, workspace)? else {
        return Ok(false);
    };
    let faster = direct < shared * (1.0 - MARGIN);
    tracing::debug!(
        faster,
        "{SAMPLE} bytes took {direct:.6} s out of the memory of other ranks, {shared:.6} s through \
         shared memory"
    );
    Ok(faster)
}

/// How a tensor is reduced.
#[derive(Debug, Clone, Copy)]
enum Way {
    Shared,
    Direct,
}

/// Seconds that either way takes, the same on all members; none if one of them is not possible.
fn time(comm: &mut Communicator<'_>, workspace: &mut Workspace) -> Result<Option<[f64; 2]>> {
    let mut memory = vec![0; SAMPLE];
    let mut best = [f64::INFINITY; 2];
    for number in 0..=TIMES {
        for (best, way) in best.iter_mut().zip([Way::Shared, Way::Direct]) {
            let Some(seconds) = run(way, comm, &mut memory, workspace)? else {
                return Ok(None);
            };
            if number > 0 {
                *best = best.min(seconds);
            }
        }
    }
    let largest = Combine {
        dtype: DType::Float64,
        reduction: Reduction::Max,
    };
    let mut worst = best.map(f64::to_ne_bytes);
    hvd_collectives::allreduce(comm, largest, worst.as_flattened_mut(), workspace)?;
    Ok(Some(worst.map(f64::from_ne_bytes)))
}

/// Sums `memory` over the members, and returns the seconds that it took; none if it is not possible.
fn run(
    way: Way,
    comm: &mut Communicator<'_>,
    memory: &mut [u8],
    workspace: &mut Workspace,
) -> Result<Option<f64>> {
    let sum = Combine {
        dtype: DType::Float32,
        reduction: Reduction::Sum,
    };
    let mut tensors = [Tensor {
        memory: TensorMemory::InPlace(memory),
        factor: 1.0,
    }];
    let start = Instant::now();
    let done = match way {
        Way::Shared => shared_allreduce(comm, sum, 1.0, &mut tensors, workspace)?,
        Way::Direct => {
            let [tensor] = &mut tensors;
            direct_allreduce(comm, sum, 1.0, tensor, workspace)?
        }
    };
    Ok(done.then(|| start.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use hvd_testkit::run_ranks_with;
    use hvd_transport::Mesh;
    use hvd_transport::testing::{Wire, mesh_of};

    use super::DirectReads::{Always, IfFaster, Never};
    use super::*;

    /// What each rank decides that wishes the one by its number.
    fn decisions(wishes: &'static [DirectReads]) -> Vec<DirectReads> {
        let mesh = mesh_of(Wire::SharedMemory, wishes.len());
        let decided = run_ranks_with(mesh, move |rank, mut mesh: Mesh| {
            let members: Vec<Rank> = (0..wishes.len()).map(Rank::from_index).collect();
            let mut comm = Communicator::new(&mut *mesh.transport, &members).unwrap();
            let wish = wishes[rank.index()];
            let chosen = choose(wish, &mut comm, &mut Workspace::default()).unwrap();
            (chosen, mesh)
        });
        decided.into_iter().map(|(chosen, _)| chosen).collect()
    }

    #[test]
    fn the_most_cautious_wish_counts() {
        assert_eq!(decisions(&[Always, Always, Always]), [Always; 3]);
        assert_eq!(decisions(&[Always, Never, IfFaster]), [Never; 3]);
    }

    #[test]
    fn all_ranks_choose_alike_by_what_they_have_measured() {
        for wishes in [&[IfFaster, IfFaster, IfFaster][..], &[IfFaster, Always]] {
            let chosen = decisions(wishes);
            assert!(chosen.iter().all(|&other| other == chosen[0]), "{chosen:?}");
            assert_ne!(chosen[0], Always, "the more cautious wish is to measure");
        }
    }

    /// Those who would read by measurement, and those who read anyway, after some operations.
    #[test]
    fn only_what_was_measured_is_measured_again() {
        let results = run_ranks_with(mesh_of(Wire::SharedMemory, 2), |_, mut mesh: Mesh| {
            let members: Vec<Rank> = (0..2).map(Rank::from_index).collect();
            let mut comm = Communicator::new(&mut *mesh.transport, &members).unwrap();
            let mut workspace = Workspace::default();
            let mut reads = Vec::new();
            for (before, operations) in [
                (Always, AGAIN[0]),
                (IfFaster, AGAIN[0] + 1),
                (Never, AGAIN[0]),
                (IfFaster, AGAIN[2]),
            ] {
                let decision = Decision {
                    reads: before,
                    operations,
                };
                let after = decision.confirmed(&mut comm, &mut workspace).unwrap();
                assert_eq!(after.operations, operations);
                reads.push(after.reads);
            }
            (reads, mesh)
        });
        let (first, second) = (&results[0].0, &results[1].0);
        assert_eq!(first[..3], [Always, IfFaster, Never]);
        assert_ne!(first[3], Always);
        assert_eq!(first, second);
    }
}
