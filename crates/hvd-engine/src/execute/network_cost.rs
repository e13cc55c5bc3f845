//! What messages between the ranks of a job cost, measured once, before the first allreduce that
//! goes over connections, and the same numbers on all ranks.
//!
//! 1. Neighbours send a message to and fro, first a short one and then a long one, a few times
//!    each; the fastest of each counts, because whatever is slower had other reasons. First every
//!    other pair of neighbours, then those between, so that every pair of hosts with neighbours is
//!    seen.
//! 2. The ranks agree on the largest latency and the largest cost of a byte that any has seen. A
//!    maximum is the same bits everywhere, so all ranks choose alike.

use std::time::Instant;

use hvd_collectives::{
    Combine, Communicator, Cost, Reduction, Result, Workspace, recursive_doubling_allreduce,
};
use hvd_types::DType;

/// Long enough that its bytes take longer than its way, short enough to be over soon.
const LONG: usize = 128 * 1024;

/// How often each length is sent.
const TIMES: usize = 3;

/// Measures the cost of messages among `comm`; all members must call.
pub(super) fn measure(comm: &mut Communicator<'_>, workspace: &mut Workspace) -> Result<Cost> {
    let mut memory = vec![0; LONG];
    let mut own = Cost {
        latency: 0.0,
        per_byte: 0.0,
    };
    for phase in 0..2 {
        let short = fastest(comm, phase, &mut memory[..1])?;
        let long = fastest(comm, phase, &mut memory)?;
        #[expect(clippy::cast_precision_loss, reason = "128 KiB are exact")]
        let per_byte = (long - short).max(0.0) / LONG as f64;
        own.latency = own.latency.max(short);
        own.per_byte = own.per_byte.max(per_byte);
    }
    let Cost { latency, per_byte } = own;
    let mut worst = [latency.to_ne_bytes(), per_byte.to_ne_bytes()].concat();
    let largest = Combine {
        dtype: DType::Float64,
        reduction: Reduction::Max,
    };
    recursive_doubling_allreduce(comm, largest, &mut worst, workspace)?;
    let (latency, per_byte) = worst.split_at(8);
    let number = |bytes: &[u8]| bytes.try_into().map_or(0.0, f64::from_ne_bytes);
    Ok(Cost {
        latency: number(latency),
        per_byte: number(per_byte),
    })
}

/// Seconds that `memory` takes to a neighbour, at best; 0 for those who only answer, and for a
/// member that has no neighbour in this phase.
fn fastest(comm: &mut Communicator<'_>, phase: usize, memory: &mut [u8]) -> Result<f64> {
    let index = comm.index();
    let leads = index % 2 == phase;
    let peer = if leads {
        index + 1
    } else {
        index.wrapping_sub(1)
    };
    if peer >= comm.size() {
        return Ok(0.0);
    }
    let mut fastest = f64::INFINITY;
    // The first one makes the connection.
    for _ in 0..=TIMES {
        if leads {
            let start = Instant::now();
            comm.send(peer, memory)?;
            comm.recv(peer, memory)?;
            fastest = fastest.min(start.elapsed().as_secs_f64() / 2.0);
        } else {
            comm.recv(peer, memory)?;
            comm.send(peer, memory)?;
        }
    }
    Ok(if leads { fastest } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use hvd_testkit::run_ranks_with;
    use hvd_transport::Mesh;
    use hvd_transport::testing::{Wire, mesh_of};
    use hvd_types::Rank;

    use super::*;

    #[test]
    fn all_ranks_agree_on_what_messages_cost() {
        for size in [2, 3, 5] {
            let costs = run_ranks_with(mesh_of(Wire::Tcp, size), move |_, mut mesh: Mesh| {
                let members: Vec<Rank> = (0..size).map(Rank::from_index).collect();
                let mut comm = Communicator::new(&mut *mesh.transport, &members).unwrap();
                let cost = measure(&mut comm, &mut Workspace::default()).unwrap();
                (cost, mesh)
            });
            let first = costs[0].0;
            assert!(first.latency > 0.0 && first.per_byte >= 0.0, "{first:?}");
            assert!(costs.iter().all(|(cost, _)| *cost == first), "{size} ranks");
        }
    }
}
