//! Alltoall: each rank sends some rows to each rank. How many is sent right before the data, so
//! that splits may change from call to call without a new negotiation. Rows beyond the sum of the
//! splits stay at home.

use hvd_collectives::{Error, Parts, PartsMut, exchange_counts};
use hvd_transport::Failure;
use hvd_wire::{Operation, TensorSpec};

use super::{Context, Work, count, row_bytes};
use crate::handle::OperationOutput;
use crate::timeline::Activity;

pub(super) fn alltoall(
    context: &mut Context<'_>,
    operation: &Operation,
    works: Vec<Work>,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
    works
        .into_iter()
        .map(|work| alone(context, operation, work))
        .collect()
}

fn alone(
    context: &mut Context<'_>,
    operation: &Operation,
    work: Work,
) -> hvd_collectives::Result<OperationOutput> {
    let Work {
        spec,
        source,
        target,
        splits,
        ..
    } = work;
    let row = row_bytes(&spec, operation);
    let bytes = |rows: &[u64]| -> Vec<usize> {
        rows.iter()
            .map(|&rows| count(rows).saturating_mul(row))
            .collect()
    };
    let mut received_splits = vec![0; context.comm.size()];
    exchange_counts(&mut context.comm, &splits, &mut received_splits)?;
    check_received(context, &spec, &received_splits)?;
    let (to_send, to_receive) = (bytes(&splits), bytes(&received_splits));
    context.phases.begin(Activity::AllocateOutput);
    let mut memory = target.into_memory(to_receive.iter().sum());
    context.phases.begin(Activity::Collective(operation.kind));
    hvd_collectives::alltoall(
        &mut context.comm,
        Parts {
            bytes: source.as_slice(),
            counts: &to_send,
        },
        PartsMut {
            bytes: memory.as_mut_slice(),
            counts: &to_receive,
        },
    )?;
    let shape = spec.shape.with_first(received_splits.iter().sum());
    Ok(OperationOutput {
        output: memory.into_buffer(),
        shape,
        received_splits,
        ..OperationOutput::default()
    })
}

/// No rank can send more rows than it announced; a larger number is a broken peer,
/// and not a reason to allocate.
fn check_received(
    context: &mut Context<'_>,
    spec: &TensorSpec,
    received: &[u64],
) -> hvd_collectives::Result<()> {
    for (index, (&announced, &rows)) in received.iter().zip(&spec.first_dimensions).enumerate() {
        if announced > rows {
            let rank = context.comm.rank_of(index)?;
            let host = context.comm.transport().host_of(rank).to_owned();
            let reason = format!("announced {announced} rows of the {rows} it has");
            let broken = Failure { rank, host, reason };
            return Err(Error::Transport(broken.into()));
        }
    }
    Ok(())
}
