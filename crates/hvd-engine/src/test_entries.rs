//! What callers would have submitted, for unit tests: allreduces of one `f32`.

use std::sync::Arc;

use hvd_types::{DType, Device, OpKind, ProcessSetId, Rank, ReduceOp, Shape};
use hvd_wire::{CacheId, Operation, Request, RequestList, TensorRef, TensorSpec};

use crate::handle::{Completer, Completion};
use crate::local_set::LocalSet;
use crate::queue::{BoxedEntry, QueueEntry};
use crate::submit::Submission;
use crate::tensor::TensorSource;

pub(crate) fn request(name: &str) -> Request {
    Request {
        name: name.into(),
        kind: OpKind::Allreduce,
        dtype: DType::Float32,
        shape: Shape::new([1]),
        root: Rank::COORDINATOR,
        device: Device::Cpu,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 1.0,
        group: None,
    }
}

/// An entry, and what its caller waits for.
pub(crate) fn entry(id: ProcessSetId, name: &str, value: f32) -> (BoxedEntry, Arc<Completion>) {
    let completion = Arc::new(Completion::default());
    let entry = entry_with(id, name, value, Completer::new(&completion));
    (entry, completion)
}

pub(crate) fn entry_with(
    id: ProcessSetId,
    name: &str,
    value: f32,
    completer: Completer,
) -> BoxedEntry {
    let source = TensorSource::owned(value.to_ne_bytes().to_vec());
    let plain = Submission::new(OpKind::Allreduce, DType::Float32, Shape::new([1]), source);
    let submission = Submission {
        process_set: id,
        ..plain
    };
    QueueEntry::new(request(name), submission, completer)
}

pub(crate) fn operation(tensors: Vec<TensorRef>) -> Operation {
    Operation {
        kind: OpKind::Allreduce,
        dtype: DType::Float32,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 1.0,
        root: Rank::COORDINATOR,
        divisor: 1,
        tensors,
    }
}

/// Has a set negotiate and execute a tensor once, so that it is known by a number afterwards.
pub(crate) fn agree(set: &mut LocalSet, name: &str, number: u64) {
    let (entry, _) = entry(ProcessSetId::GLOBAL, name, 0.0);
    set.announce(entry, &mut RequestList::default());
    let spec = TensorSpec {
        name: name.into(),
        cache: Some(CacheId(number)),
        shape: Shape::new([1]),
        first_dimensions: Vec::new(),
    };
    let tasks = set.tasks(&operation(vec![TensorRef::New(spec)])).unwrap();
    assert!(tasks.iter().all(|task| task.entry.is_some()));
}
