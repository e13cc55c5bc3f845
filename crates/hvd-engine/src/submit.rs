//! The entry: what a caller asks for, and the checks that need no other rank.

use std::sync::Arc;

use hvd_types::{DType, Device, OpKind, ProcessSetId, Rank, ReduceOp, Shape};
use hvd_wire::Request;

use crate::tensor::{TensorSource, TensorTarget};

/// The name under which ranks meet at a barrier.
const BARRIER_NAME: &str = "barrier.noname";

/// The name under which ranks join.
pub(crate) const JOIN_NAME: &str = "join.noname";

/// The most bytes of a name, of a tensor or of a group. All names that ranks ask for at once travel
/// in one message, which is bounded, too.
pub const LONGEST_NAME: usize = 64 << 10;

/// One operation as a caller asks for it. Fields that an operation does not use keep their
/// defaults from [`Submission::new`].
#[derive(Debug)]
pub struct Submission {
    /// The tensor's name; `None` for an automatic one.
    pub name: Option<Arc<str>>,
    /// The operation.
    pub kind: OpKind,
    /// Type of the elements.
    pub dtype: DType,
    /// Shape of the input.
    pub shape: Shape,
    /// The input.
    pub source: TensorSource,
    /// Where the result goes.
    pub target: TensorTarget,
    /// How elements are reduced.
    pub reduce_op: ReduceOp,
    /// Factor before the reduction.
    pub prescale: f64,
    /// Factor after the reduction.
    pub postscale: f64,
    /// The rank whose data a broadcast spreads.
    pub root: Rank,
    /// Rows for each rank, for an alltoall; empty for equal parts.
    pub splits: Vec<u64>,
    /// The process set.
    pub process_set: ProcessSetId,
    /// The group this is submitted with, by its name.
    pub group: Option<Arc<str>>,
}

/// A call that makes no sense, whatever the other ranks do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    /// There is no such process set.
    #[error("{kind}: process set {id} does not exist")]
    UnknownProcessSet {
        /// The operation.
        kind: OpKind,
        /// The number given.
        id: ProcessSetId,
    },
    /// The calling rank is not in the process set.
    #[error("{kind}: rank {rank} is not in process set {id}; only its members may call")]
    NotAMember {
        /// The operation.
        kind: OpKind,
        /// The caller.
        rank: Rank,
        /// The set.
        id: ProcessSetId,
    },
    /// The root is not in the process set.
    #[error("broadcast: root rank {root} is not in process set {id}, which has {size} ranks")]
    UnknownRoot {
        /// The root given.
        root: Rank,
        /// The set.
        id: ProcessSetId,
        /// Ranks in the set.
        size: usize,
    },
    /// Only all ranks together can join.
    #[error("join is only possible for all ranks, not for process set {0}")]
    JoinOnSet(ProcessSetId),
    /// A name so long that it would not fit into the messages about it.
    #[error(
        "{kind}: a name of {bytes} bytes is too long; names of tensors and groups have at most \
         {LONGEST_NAME} bytes"
    )]
    NameTooLong {
        /// The operation.
        kind: OpKind,
        /// The length of the name.
        bytes: usize,
    },
    /// The memory does not have the length that shape and type ask for.
    #[error("{kind}: a {dtype} tensor of shape {shape} does not have {bytes} bytes")]
    WrongLength {
        /// The operation.
        kind: OpKind,
        /// Type of the elements.
        dtype: DType,
        /// The shape given.
        shape: Shape,
        /// The bytes given.
        bytes: usize,
    },
    /// Splits are not one number per rank.
    #[error("alltoall: {got} splits were given, one for each of {size} ranks is needed")]
    WrongSplitCount {
        /// The number of splits.
        got: usize,
        /// Ranks in the job.
        size: usize,
    },
    /// Splits ask for more rows than there are.
    #[error("alltoall: splits sum up to {sum}, but the first dimension is only {rows}")]
    SplitsTooLarge {
        /// Their sum.
        sum: u64,
        /// The first dimension.
        rows: u64,
    },
    /// Rows cannot be divided among the ranks.
    #[error(
        "alltoall: the first dimension, {rows}, is not divisible by the {size} ranks; pass splits"
    )]
    Indivisible {
        /// The first dimension.
        rows: u64,
        /// Ranks in the job.
        size: usize,
    },
}

/// An operation that this release or this data type does not offer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unsupported {
    /// Only sums and averages can be scattered.
    #[error("reducescatter supports Sum and Average only, not {0}")]
    ScatterReduction(ReduceOp),
    /// Truth values have no average.
    #[error("{kind}: bool tensors cannot be averaged or scaled; use Sum, Min, Max or Product")]
    ScaledBool {
        /// The operation.
        kind: OpKind,
    },
    /// Adasum is a formula for real numbers.
    #[error("Adasum works on float16, bfloat16, float32 and float64 tensors, not on {0}")]
    AdasumType(DType),
    /// Adasum combines pairs, and pairs of pairs.
    #[error("Adasum needs a number of ranks that is a power of two, not {0}")]
    AdasumSize(usize),
    /// Adasum is for all ranks.
    #[error("Adasum is only possible for all ranks, not for process set {0}")]
    AdasumOnSet(ProcessSetId),
}

/// Refuses a name that is too long.
pub(crate) fn check_name(kind: OpKind, name: Option<&str>) -> Result<(), ArgumentError> {
    let bytes = name.map_or(0, str::len);
    if bytes > LONGEST_NAME {
        return Err(ArgumentError::NameTooLong { kind, bytes });
    }
    Ok(())
}

impl Submission {
    /// A submission of a tensor with default options.
    pub fn new(kind: OpKind, dtype: DType, shape: Shape, source: TensorSource) -> Self {
        Self {
            name: None,
            kind,
            dtype,
            shape,
            source,
            target: TensorTarget::allocate(),
            reduce_op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            root: Rank::COORDINATOR,
            splits: Vec::new(),
            process_set: ProcessSetId::GLOBAL,
            group: None,
        }
    }

    /// A barrier, which has no tensor.
    pub fn barrier(process_set: ProcessSetId) -> Self {
        let source = TensorSource::owned(Vec::new());
        let shape = Shape::new([0]);
        let barrier = Self::new(OpKind::Barrier, DType::Uint8, shape, source);
        Self {
            name: Some(BARRIER_NAME.into()),
            process_set,
            ..barrier
        }
    }

    /// The end of this rank's data: it takes part in what others still reduce until all have
    /// joined.
    pub fn join() -> Self {
        let source = TensorSource::owned(Vec::new());
        let join = Self::new(OpKind::Join, DType::Uint8, Shape::new([0]), source);
        Self {
            name: Some(JOIN_NAME.into()),
            ..join
        }
    }

    /// Makes this the member at `index`, counted from 0, of a group of `count`.
    pub(crate) fn enroll(&mut self, group: &Arc<str>, index: usize, count: usize) {
        self.name = Some(format!("{group}_{}of{count}", index + 1).into());
        self.group = Some(Arc::clone(group));
    }

    /// Checks everything that can be checked on the calling rank, and fills in equal splits.
    /// `members` are those of the process set, ascending, if it exists.
    pub(crate) fn check(&mut self, rank: Rank, members: Option<&[Rank]>) -> crate::Result<()> {
        self.check_support()?;
        let (kind, id) = (self.kind, self.process_set);
        let members = members.ok_or(ArgumentError::UnknownProcessSet { kind, id })?;
        if members.binary_search(&rank).is_err() {
            return Err(ArgumentError::NotAMember { kind, rank, id }.into());
        }
        if self.is_adasum() {
            self.check_adasum(members.len())?;
        }
        self.check_arguments(members)?;
        Ok(())
    }

    fn check_support(&self) -> Result<(), Unsupported> {
        let kind = self.kind;
        let op = self.reduce_op;
        if kind == OpKind::Reducescatter && !matches!(op, ReduceOp::Sum | ReduceOp::Average) {
            return Err(Unsupported::ScatterReduction(op));
        }
        #[expect(clippy::float_cmp, reason = "exactly 1 means: not scaled")]
        let scaled = op == ReduceOp::Average || self.prescale != 1.0 || self.postscale != 1.0;
        if self.dtype == DType::Bool && scaled {
            return Err(Unsupported::ScaledBool { kind });
        }
        Ok(())
    }

    fn is_adasum(&self) -> bool {
        self.kind == OpKind::Allreduce && self.reduce_op == ReduceOp::Adasum
    }

    fn check_adasum(&self, size: usize) -> Result<(), Unsupported> {
        use DType::{Bfloat16, Float16, Float32, Float64};
        if self.process_set != ProcessSetId::GLOBAL {
            return Err(Unsupported::AdasumOnSet(self.process_set));
        }
        if !matches!(self.dtype, Float16 | Bfloat16 | Float32 | Float64) {
            return Err(Unsupported::AdasumType(self.dtype));
        }
        if !size.is_power_of_two() {
            return Err(Unsupported::AdasumSize(size));
        }
        Ok(())
    }

    fn check_arguments(&mut self, members: &[Rank]) -> Result<(), ArgumentError> {
        let (id, size) = (self.process_set, members.len());
        check_name(self.kind, self.name.as_deref())?;
        if self.kind == OpKind::Join && id != ProcessSetId::GLOBAL {
            return Err(ArgumentError::JoinOnSet(id));
        }
        if self.kind == OpKind::Broadcast && members.binary_search(&self.root).is_err() {
            let root = self.root;
            return Err(ArgumentError::UnknownRoot { root, id, size });
        }
        self.check_lengths()?;
        if self.kind == OpKind::Alltoall {
            self.check_splits(size)?;
        }
        Ok(())
    }

    fn check_lengths(&self) -> Result<(), ArgumentError> {
        let elements = self
            .shape
            .elements()
            .and_then(|elements| usize::try_from(elements).ok());
        let expected = elements.and_then(|elements| elements.checked_mul(self.dtype.size()));
        for bytes in [Some(self.source.len()), self.target.borrowed_len()]
            .into_iter()
            .flatten()
        {
            if Some(bytes) != expected {
                let (kind, dtype, shape) = (self.kind, self.dtype, self.shape.clone());
                return Err(ArgumentError::WrongLength {
                    kind,
                    dtype,
                    shape,
                    bytes,
                });
            }
        }
        Ok(())
    }

    /// A scalar passes: all ranks together get the error that it cannot be split.
    fn check_splits(&mut self, size: usize) -> Result<(), ArgumentError> {
        let Some(rows) = self.shape.first() else {
            return Ok(());
        };
        if self.splits.is_empty() {
            if !rows.is_multiple_of(size as u64) {
                return Err(ArgumentError::Indivisible { rows, size });
            }
            self.splits = vec![rows / size as u64; size];
        }
        if self.splits.len() != size {
            return Err(ArgumentError::WrongSplitCount {
                got: self.splits.len(),
                size,
            });
        }
        let sum = self
            .splits
            .iter()
            .fold(0, |sum: u64, &split| sum.saturating_add(split));
        if sum > rows {
            return Err(ArgumentError::SplitsTooLarge { sum, rows });
        }
        Ok(())
    }

    /// The request that describes this to the other ranks. An allreduce by Adasum is an operation
    /// of its own, and the average of a reducescatter is folded into its factor, as in Horovod.
    /// `unnamed` numbers operations without a name. Names and shape move into the request.
    pub(crate) fn request(&mut self, unnamed: impl FnOnce() -> u64, size: usize) -> Request {
        let automatic = || format!("{}.noname.{}", self.kind, unnamed()).into();
        let name = self.name.take().unwrap_or_else(automatic);
        let folds = self.kind == OpKind::Reducescatter && self.reduce_op == ReduceOp::Average;
        let (reduce_op, postscale) = if folds {
            (ReduceOp::Sum, averaged(self.postscale, size))
        } else {
            (self.reduce_op, self.postscale)
        };
        let kind = if self.is_adasum() {
            OpKind::Adasum
        } else {
            self.kind
        };
        Request {
            name,
            kind,
            dtype: self.dtype,
            shape: std::mem::take(&mut self.shape),
            root: self.root,
            device: Device::Cpu,
            reduce_op,
            prescale: self.prescale,
            postscale,
            group: self.group.take(),
        }
    }
}

/// A factor that also divides by the number of ranks.
#[expect(clippy::cast_precision_loss, reason = "ranks are counted with 32 bits")]
fn averaged(factor: f64, size: usize) -> f64 {
    factor / size as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alltoall(rows: u64, splits: &[u64]) -> Submission {
        let bytes = usize::try_from(rows).unwrap();
        let source = TensorSource::owned(vec![0; bytes]);
        let mut submission =
            Submission::new(OpKind::Alltoall, DType::Uint8, Shape::new([rows]), source);
        submission.splits = splits.to_vec();
        submission
    }

    const PAIR: [Rank; 2] = [Rank::new(0), Rank::new(1)];

    /// The error that rank 1 of two gets, in a job with a set 1 of rank 0 alone.
    fn check(submission: &mut Submission) -> crate::Result<()> {
        let members = match submission.process_set.number() {
            0 => Some(&PAIR[..]),
            1 => Some(&PAIR[..1]),
            _ => None,
        };
        submission.check(Rank::new(1), members)
    }

    fn text(mut submission: Submission) -> String {
        check(&mut submission).unwrap_err().to_string()
    }

    #[test]
    fn endless_names_are_refused() {
        let mut submission = alltoall(2, &[]);
        submission.name = Some("x".repeat(LONGEST_NAME).into());
        check(&mut submission).unwrap();
        submission.name = Some("x".repeat(LONGEST_NAME + 1).into());
        assert_eq!(
            text(submission),
            "alltoall: a name of 65537 bytes is too long; names of tensors and groups have at most \
             65536 bytes"
        );
    }

    #[test]
    fn splits_are_checked_and_filled_in() {
        let mut even = alltoall(6, &[]);
        check(&mut even).unwrap();
        assert_eq!(even.splits, [3, 3]);
        check(&mut alltoall(6, &[1, 2])).unwrap();
        assert_eq!(
            text(alltoall(3, &[])),
            "alltoall: the first dimension, 3, is not divisible by the 2 ranks; pass splits"
        );
        assert_eq!(
            text(alltoall(4, &[3, 2])),
            "alltoall: splits sum up to 5, but the first dimension is only 4"
        );
        assert_eq!(
            text(alltoall(4, &[4])),
            "alltoall: 1 splits were given, one for each of 2 ranks is needed"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let tensor = |kind, dtype| {
            Submission::new(
                kind,
                dtype,
                Shape::new([2]),
                TensorSource::owned(vec![0; 2 * dtype.size()]),
            )
        };
        let mut stranger = tensor(OpKind::Allreduce, DType::Int8);
        stranger.process_set = ProcessSetId::new(3);
        assert_eq!(text(stranger), "allreduce: process set 3 does not exist");
        let mut outsider = tensor(OpKind::Allgather, DType::Int8);
        outsider.process_set = ProcessSetId::new(1);
        assert_eq!(
            text(outsider),
            "allgather: rank 1 is not in process set 1; only its members may call"
        );
        let mut rootless = tensor(OpKind::Broadcast, DType::Int8);
        rootless.root = Rank::new(2);
        assert_eq!(
            text(rootless),
            "broadcast: root rank 2 is not in process set 0, which has 2 ranks"
        );
        let mut long = tensor(OpKind::Allreduce, DType::Int8);
        long.shape = Shape::new([3]);
        assert_eq!(
            text(long),
            "allreduce: a int8 tensor of shape [3] does not have 2 bytes"
        );
        let mut product = tensor(OpKind::Reducescatter, DType::Int8);
        product.reduce_op = ReduceOp::Product;
        assert_eq!(
            text(product),
            "reducescatter supports Sum and Average only, not Product"
        );
        let mut average = tensor(OpKind::Allreduce, DType::Bool);
        average.reduce_op = ReduceOp::Average;
        assert!(text(average).starts_with("allreduce: bool tensors cannot be averaged"));
    }

    #[test]
    fn averaging_a_reducescatter_becomes_a_factor() {
        let source = TensorSource::owned(vec![0; 4]);
        let shape = Shape::new([1]);
        let mut scatter = Submission::new(OpKind::Reducescatter, DType::Float32, shape, source);
        scatter.reduce_op = ReduceOp::Average;
        scatter.postscale = 3.0;
        let request = scatter.request(|| 7, 4);
        assert_eq!(
            (request.reduce_op, request.postscale),
            (ReduceOp::Sum, 0.75)
        );
        assert_eq!(&*request.name, "reducescatter.noname.7");
    }
}
