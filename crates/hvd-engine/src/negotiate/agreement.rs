//! What all ranks agreed on for one tensor.

use std::sync::Arc;

use hvd_types::{DType, Device, OpKind, Rank, ReduceOp, Shape};
use hvd_wire::{Operation, Request, TensorPlan};

use super::validate::Claim;

/// One tensor's agreed description, from which every rank's request can be told again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Agreement {
    pub(crate) name: Arc<str>,
    pub(crate) kind: OpKind,
    pub(crate) dtype: DType,
    pub(crate) reduce_op: ReduceOp,
    pub(crate) prescale: f64,
    pub(crate) postscale: f64,
    pub(crate) root: Rank,
    pub(crate) shape: Shape,
    /// First dimension of every member, for operations in which it may differ.
    pub(crate) first_dimensions: Vec<u64>,
    /// Where each member's memory is.
    pub(crate) devices: Vec<Device>,
    /// The group it was submitted with.
    pub(crate) group: Option<Arc<str>>,
}

impl Agreement {
    /// The agreement in validated claims of `members`, some of whom may have joined and claim
    /// nothing.
    pub(crate) fn of(claims: &[Claim], members: &[Rank]) -> Option<Self> {
        let request = &claims.first()?.request;
        let mut first_dimensions = vec![0; members.len()];
        let mut devices = vec![Device::Cpu; members.len()];
        for Claim { party, request } in claims {
            let position = members.binary_search(&party.rank).ok()?;
            first_dimensions[position] = request.shape.first().unwrap_or(0);
            devices[position] = request.device;
        }
        let ragged = matches!(request.kind, OpKind::Allgather | OpKind::Alltoall);
        let shape = if ragged {
            request.shape.with_first(first_dimensions[0])
        } else {
            first_dimensions.clear();
            request.shape.clone()
        };
        Some(Self {
            name: Arc::clone(&request.name),
            kind: request.kind,
            dtype: request.dtype,
            reduce_op: request.reduce_op,
            prescale: request.prescale,
            postscale: request.postscale,
            root: request.root,
            shape,
            first_dimensions,
            devices,
            group: request.group.clone(),
        })
    }

    /// What the member at a position must have asked for when this was agreed.
    pub(crate) fn request_of(&self, position: usize) -> Request {
        let shape = match self.first_dimensions.get(position) {
            Some(&first) => self.shape.with_first(first),
            None => self.shape.clone(),
        };
        Request {
            name: Arc::clone(&self.name),
            kind: self.kind,
            dtype: self.dtype,
            shape,
            root: self.root,
            device: self.devices[position],
            reduce_op: self.reduce_op,
            prescale: self.prescale,
            postscale: self.postscale,
            group: self.group.clone(),
        }
    }

    /// The description that goes to every rank.
    pub(crate) fn plan(&self) -> TensorPlan {
        TensorPlan {
            name: Arc::clone(&self.name),
            cache: None,
            shape: self.shape.clone(),
            first_dimensions: self.first_dimensions.clone(),
        }
    }

    /// An operation on this tensor, its members yet to be filled in.
    pub(crate) fn operation(&self, divisor: u32) -> Operation {
        Operation {
            kind: self.kind,
            dtype: self.dtype,
            reduce_op: self.reduce_op,
            prescale: self.prescale,
            postscale: self.postscale,
            root: self.root,
            divisor,
            members: Vec::new(),
        }
    }

    /// Bytes of the fused buffer this tensor takes; for a gathered tensor those of all ranks.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = match self.kind {
            OpKind::Allgather => self
                .first_dimensions
                .iter()
                .fold(0, |sum: u64, &rows| sum.saturating_add(rows)),
            _ => self.shape.first().unwrap_or(1),
        };
        let row = self.shape.row_elements().unwrap_or(u64::MAX);
        rows.saturating_mul(row)
            .saturating_mul(self.dtype.size() as u64)
    }
}
