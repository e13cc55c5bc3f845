//! What all ranks agreed on for one tensor.

use std::sync::Arc;

use hvd_types::{DType, Device, OpKind, Rank, ReduceOp, Shape};
use hvd_wire::{Operation, Request, TensorSpec};

use super::requesters::{RequestForm, RequesterGroup};

/// One tensor's agreed description, from which every rank's request can be reconstructed.
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
    pub(crate) devices: Devices,
    /// The group it was submitted with.
    pub(crate) group: Option<Arc<str>>,
}

/// Where the members of a set have a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Devices {
    /// All in the same kind of place.
    Same(Device),
    /// By position.
    Each(Vec<Device>),
}

impl Devices {
    fn at(&self, position: usize) -> Device {
        match self {
            Self::Same(device) => *device,
            Self::Each(devices) => devices[position],
        }
    }
}

impl Agreement {
    /// The agreement in what groups of `members` asked for, which was validated; `request` is what
    /// one of them asked for. Some members may have joined and asked for nothing.
    pub(crate) fn of(
        request: &Request,
        groups: &[RequesterGroup<Arc<Self>>],
        members: &[Rank],
    ) -> Option<Self> {
        let ragged = matches!(request.kind, OpKind::Allgather | OpKind::Alltoall);
        let (shape, first_dimensions) = if ragged {
            let all = spread(groups, members, 0, RequesterGroup::first_dimension)?;
            (request.shape.with_first(*all.first()?), all)
        } else {
            (request.shape.clone(), Vec::new())
        };
        let devices = match common_device(groups) {
            Some(device) => Devices::Same(device),
            None => Devices::Each(spread(
                groups,
                members,
                Device::Cpu,
                RequesterGroup::device,
            )?),
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
            device: self.devices.at(position),
            reduce_op: self.reduce_op,
            prescale: self.prescale,
            postscale: self.postscale,
            group: self.group.clone(),
        }
    }

    /// The description that goes to every rank.
    pub(crate) fn spec(&self) -> TensorSpec {
        TensorSpec {
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
            tensors: Vec::new(),
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

/// The device of all ranks of all groups, where it is seen without looking at each of them.
fn common_device(groups: &[RequesterGroup<Arc<Agreement>>]) -> Option<Device> {
    let mut devices = groups.iter().map(|group| match &group.form {
        RequestForm::Cached(_, agreement) => match &agreement.devices {
            Devices::Same(device) => Some(*device),
            Devices::Each(_) => None,
        },
        RequestForm::Full(shared) => shared.devices.is_empty().then_some(shared.request.device),
    });
    let first = devices.next()??;
    devices.all(|other| other == Some(first)).then_some(first)
}

/// A property of every member by position; `missing` for those that asked for nothing. The property
/// is a function of a rank's place in its group and its position in the set.
fn spread<T: Copy>(
    groups: &[RequesterGroup<Arc<Agreement>>],
    members: &[Rank],
    missing: T,
    property: impl Fn(&RequesterGroup<Arc<Agreement>>, usize, usize) -> T,
) -> Option<Vec<T>> {
    let mut all = vec![missing; members.len()];
    for group in groups {
        for (index, rank) in group.ranks.iter().enumerate() {
            let position = members.binary_search(&rank).ok()?;
            all[position] = property(group, index, position);
        }
    }
    Some(all)
}

impl RequesterGroup<Arc<Agreement>> {
    fn first_dimension(&self, index: usize, position: usize) -> u64 {
        let (each, shape) = match &self.form {
            RequestForm::Cached(_, agreement) => {
                (agreement.first_dimensions.get(position), &agreement.shape)
            }
            RequestForm::Full(shared) => {
                (shared.first_dimensions.get(index), &shared.request.shape)
            }
        };
        each.copied().or(shape.first()).unwrap_or(0)
    }

    fn device(&self, index: usize, position: usize) -> Device {
        match &self.form {
            RequestForm::Cached(_, agreement) => agreement.devices.at(position),
            RequestForm::Full(shared) => {
                let each = shared.devices.get(index).copied();
                each.unwrap_or(shared.request.device)
            }
        }
    }
}
