//! Which tensors travel together. A pure function of the list of agreed tensors.
//!
//! Starting from the first tensor, later ones of the same kind join it while the sum of their
//! bytes stays within the threshold. Others in between are jumped over, as long as what was taken
//! and what was jumped over together stay within the threshold; they keep their order.
//!
//! - `FUSE-1` every tensor ends up in exactly one operation.
//! - `FUSE-2` members of an operation have one kind, type, reduction and scaling.
//! - `FUSE-3` an operation of several members is never larger than the threshold.

use std::collections::VecDeque;
use std::sync::Arc;

use hvd_types::OpKind;
use hvd_wire::{Operation, TensorRef};

use crate::negotiate::agreement::Agreement;

/// A tensor that may be executed, and how it is described to the ranks.
#[derive(Debug, Clone)]
pub(crate) struct Agreed {
    pub(crate) agreement: Arc<Agreement>,
    pub(crate) reference: TensorRef,
    /// What its average is divided by.
    pub(crate) divisor: u32,
}

/// Whether tensors of different groups may travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupFusion {
    /// They may.
    #[default]
    Mixed,
    /// Only tensors of one group travel together, and others alone.
    Separate,
}

/// Groups tensors into operations.
pub(crate) fn fuse(tensors: Vec<Agreed>, threshold: u64, groups: GroupFusion) -> Vec<Operation> {
    let mut rest: VecDeque<Agreed> = tensors.into();
    let mut operations = Vec::new();
    while let Some(first) = rest.pop_front() {
        let mut operation = first.agreement.operation(first.divisor);
        operation.tensors.push(first.reference.clone());
        if is_fusable(first.agreement.kind) {
            let partners = take_partners(&first, &mut rest, threshold, groups);
            operation.tensors.extend(partners);
        }
        operations.push(operation);
    }
    operations
}

/// Takes out of `rest` what can travel with `first`.
fn take_partners(
    first: &Agreed,
    rest: &mut VecDeque<Agreed>,
    threshold: u64,
    groups: GroupFusion,
) -> Vec<TensorRef> {
    let mut partners = Vec::new();
    let mut fused = first.agreement.bytes();
    let mut jumped = 0_u64;
    let mut kept = VecDeque::new();
    while let Some(candidate) = rest.pop_front() {
        let bytes = candidate.agreement.bytes();
        let together = fused.saturating_add(bytes);
        if together <= threshold && is_partner(first, &candidate, groups) {
            fused = together;
            partners.push(candidate.reference);
            continue;
        }
        let ends_scan = first.agreement.kind == OpKind::Allgather
            && candidate.agreement.kind == OpKind::Barrier;
        jumped = jumped.saturating_add(bytes);
        kept.push_back(candidate);
        if ends_scan || fused.saturating_add(jumped) > threshold {
            break;
        }
    }
    kept.append(rest);
    *rest = kept;
    partners
}

fn is_fusable(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Allreduce | OpKind::Adasum | OpKind::Reducescatter | OpKind::Allgather
    )
}

fn is_partner(first: &Agreed, other: &Agreed, groups: GroupFusion) -> bool {
    let (a, b) = (&first.agreement, &other.agreement);
    let same_kind = a.kind == b.kind && a.dtype == b.dtype && a.devices == b.devices;
    let same_reduction = a.reduce_op == b.reduce_op
        && first.divisor == other.divisor
        && a.prescale.to_bits() == b.prescale.to_bits()
        && a.postscale.to_bits() == b.postscale.to_bits();
    let may_mix = groups == GroupFusion::Mixed || (a.group.is_some() && a.group == b.group);
    same_kind && may_mix && (a.kind == OpKind::Allgather || same_reduction)
}

#[cfg(test)]
mod tests;
