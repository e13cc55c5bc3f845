//! The entry: what a caller asks for, and the checks that need no other rank.

use hvd_types::{DType, Device, OpKind, ProcessSetId, Rank, ReduceOp, Shape};
use hvd_wire::Request;

use crate::handle::Handle;
use crate::tensor::{Source, Target};

/// The name under which ranks meet at a barrier.
pub(crate) const BARRIER_NAME: &str = "barrier.noname";

/// One operation as a caller asks for it. Fields that an operation does not use keep their
/// defaults from [`Submission::new`].
#[derive(Debug)]
pub struct Submission {
    /// The tensor's name; `None` for an automatic one.
    pub name: Option<String>,
    /// The operation.
    pub kind: OpKind,
    /// Type of the elements.
    pub dtype: DType,
    /// Shape of the input.
    pub shape: Shape,
    /// The input.
    pub source: Source,
    /// Where the result goes.
    pub target: Target,
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
    /// The root is no rank of the job.
    #[error("broadcast: root rank {root} does not exist in a job of {size} ranks")]
    UnknownRoot {
        /// The root given.
        root: Rank,
        /// Ranks in the job.
        size: usize,
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
    /// Adaptive summation comes later.
    #[error("{kind}: Adasum is not available in this release")]
    Adasum {
        /// The operation.
        kind: OpKind,
    },
}

impl Submission {
    /// A submission of a tensor with default options.
    pub fn new(kind: OpKind, dtype: DType, shape: Shape, source: Source) -> Self {
        Self {
            name: None,
            kind,
            dtype,
            shape,
            source,
            target: Target::allocate(),
            reduce_op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            root: Rank::COORDINATOR,
            splits: Vec::new(),
            process_set: ProcessSetId::GLOBAL,
        }
    }

    /// A barrier, which has no tensor.
    pub fn barrier(process_set: ProcessSetId) -> Self {
        let source = Source::owned(Vec::new());
        let shape = Shape::new([0]);
        let barrier = Self::new(OpKind::Barrier, DType::Uint8, shape, source);
        Self {
            name: Some(BARRIER_NAME.to_owned()),
            process_set,
            ..barrier
        }
    }

    /// Checks everything that can be checked on this rank, and fills in equal splits.
    pub(crate) fn check(&mut self, size: usize) -> crate::Result<()> {
        self.check_support()?;
        self.check_arguments(size)?;
        Ok(())
    }

    fn check_support(&self) -> Result<(), Unsupported> {
        let kind = self.kind;
        let op = self.reduce_op;
        if op == ReduceOp::Adasum || kind == OpKind::Adasum {
            return Err(Unsupported::Adasum { kind });
        }
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

    fn check_arguments(&mut self, size: usize) -> Result<(), ArgumentError> {
        let kind = self.kind;
        if self.process_set != ProcessSetId::GLOBAL {
            return Err(ArgumentError::UnknownProcessSet {
                kind,
                id: self.process_set,
            });
        }
        if self.root.index() >= size {
            return Err(ArgumentError::UnknownRoot {
                root: self.root,
                size,
            });
        }
        self.check_lengths()?;
        if kind == OpKind::Alltoall {
            self.check_splits(size)
        } else {
            Ok(())
        }
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

    /// A scalar passes: that it cannot be split is for all ranks to hear together.
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

    /// The request that describes this to the other ranks. The average of a reducescatter is
    /// folded into its factor, as Horovod does.
    pub(crate) fn request(&self, handle: Handle, size: usize) -> Request {
        let automatic = || format!("{}.noname.{}", self.kind, handle.0);
        let name = self.name.clone().unwrap_or_else(automatic);
        let folds = self.kind == OpKind::Reducescatter && self.reduce_op == ReduceOp::Average;
        let (reduce_op, postscale) = if folds {
            (ReduceOp::Sum, averaged(self.postscale, size))
        } else {
            (self.reduce_op, self.postscale)
        };
        Request {
            name: name.into(),
            kind: self.kind,
            dtype: self.dtype,
            shape: self.shape.clone(),
            root: self.root,
            device: Device::Cpu,
            reduce_op,
            prescale: self.prescale,
            postscale,
        }
    }
}

/// A factor that also divides by the number of ranks.
#[expect(clippy::cast_precision_loss, reason = "ranks are counted with 32 bits")]
pub(crate) fn averaged(factor: f64, size: usize) -> f64 {
    factor / size as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alltoall(rows: u64, splits: &[u64]) -> Submission {
        let bytes = usize::try_from(rows).unwrap();
        let source = Source::owned(vec![0; bytes]);
        let mut submission =
            Submission::new(OpKind::Alltoall, DType::Uint8, Shape::new([rows]), source);
        submission.splits = splits.to_vec();
        submission
    }

    fn text(mut submission: Submission) -> String {
        submission.check(2).unwrap_err().to_string()
    }

    #[test]
    fn splits_are_checked_and_filled_in() {
        let mut even = alltoall(6, &[]);
        even.check(2).unwrap();
        assert_eq!(even.splits, [3, 3]);
        alltoall(6, &[1, 2]).check(2).unwrap();
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
                Source::owned(vec![0; 2 * dtype.size()]),
            )
        };
        let mut stranger = tensor(OpKind::Allreduce, DType::Int8);
        stranger.process_set = ProcessSetId::new(3);
        assert_eq!(text(stranger), "allreduce: process set 3 does not exist");
        let mut rootless = tensor(OpKind::Broadcast, DType::Int8);
        rootless.root = Rank::new(2);
        assert_eq!(
            text(rootless),
            "broadcast: root rank 2 does not exist in a job of 2 ranks"
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
        let source = Source::owned(vec![0; 4]);
        let shape = Shape::new([1]);
        let mut scatter = Submission::new(OpKind::Reducescatter, DType::Float32, shape, source);
        scatter.reduce_op = ReduceOp::Average;
        scatter.postscale = 3.0;
        let request = scatter.request(Handle(7), 4);
        assert_eq!(
            (request.reduce_op, request.postscale),
            (ReduceOp::Sum, 0.75)
        );
        assert_eq!(&*request.name, "reducescatter.noname.7");
    }
}
