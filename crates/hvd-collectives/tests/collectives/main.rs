//! What this crate promises: a table of every collective, transport x 1 to 8 ranks x lengths x
//! types x reductions, with ranks as threads, against results computed by other means
//! (`movement.rs`, `reductions.rs`, `adasum.rs`, and `hierarchical.rs` with hosts for sizes); the
//! kernels by themselves (`kernels.rs`, `neutral.rs`); worked examples (`examples.rs`); the
//! bytes on the wire where they are the point (`traffic.rs`); what only ranks that see the same
//! memory do (`shared.rs`); and calls that must fail (`refusals.rs`).
//!
//! A transport takes part in the table with one line at the end of this file.

#[cfg(test)]
mod adasum;
#[cfg(test)]
#[cfg(test)]
mod examples;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hierarchical;
#[cfg(test)]
mod kernels;
#[cfg(test)]
mod movement;
#[cfg(test)]
mod neutral;
#[cfg(test)]
mod reductions;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod traffic;
#[cfg(test)]
mod values;

#[test]
fn message_ring_allreduce_where_there_are_messages() {
    reductions::allreduce(harness::far_fabric, |comm, combine, buffer, _| {
        let has_run = hvd_collectives::message_ring_allreduce(comm, combine, buffer)?;
        assert_eq!(has_run, comm.size() > 1);
        Ok(())
    });
    // Ranks that share a host move pieces, and so do all that deal with them.
    let mut mesh = harness::fabric(3);
    let members = [0, 1, 2].map(hvd_types::Rank::new);
    let comm = hvd_collectives::Communicator::new(&mut *mesh[0].transport, &members);
    let combine = hvd_collectives::Combine {
        dtype: hvd_types::DType::Float32,
        reduction: hvd_collectives::Reduction::Sum,
    };
    let has_run = hvd_collectives::message_ring_allreduce(&mut comm.unwrap(), combine, &mut []);
    assert!(!has_run.unwrap());
}

/// All collectives over one kind of transport.
macro_rules! table {
    ($kind:ident, $mesh:expr) => {
        mod $kind {
            #[test]
            fn ring_allreduce() {
                crate::reductions::allreduce($mesh, hvd_collectives::ring_allreduce);
            }

            #[test]
            fn recursive_doubling_allreduce() {
                let algorithm = hvd_collectives::recursive_doubling_allreduce;
                crate::reductions::allreduce($mesh, algorithm);
            }

            #[test]
            fn halving_doubling_allreduce() {
                let algorithm = hvd_collectives::halving_doubling_allreduce;
                crate::reductions::allreduce($mesh, algorithm);
            }

            #[test]
            fn allreduce_by_cost() {
                crate::reductions::allreduce($mesh, |comm, combine, buffer, workspace| {
                    // Such that the lengths of the table choose each of the algorithms.
                    workspace.tuning.cost = Some(hvd_collectives::Cost {
                        latency: 1e-6,
                        per_byte: 1e-8,
                    });
                    hvd_collectives::allreduce(comm, combine, buffer, workspace)
                });
            }

            #[test]
            fn allreduce_by_size() {
                crate::reductions::allreduce($mesh, hvd_collectives::allreduce);
            }

            #[test]
            fn adasum() {
                crate::adasum::adasum($mesh);
            }

            #[test]
            fn hierarchical_allreduce() {
                crate::hierarchical::allreduce($mesh);
            }

            #[test]
            fn hierarchical_allgather() {
                crate::hierarchical::allgather($mesh);
            }

            #[test]
            fn reducescatter() {
                crate::reductions::reducescatter($mesh);
            }

            #[test]
            fn allgather() {
                crate::movement::allgather($mesh);
            }

            #[test]
            fn broadcast() {
                crate::movement::broadcast($mesh);
            }

            #[test]
            fn alltoall() {
                crate::movement::alltoall($mesh);
            }

            #[test]
            fn barrier() {
                crate::movement::barrier($mesh);
            }
        }
    };
}

table!(memory, crate::harness::memory);
table!(shared_memory, crate::harness::shared_memory);
table!(tcp, crate::harness::tcp);
table!(tcp_in_strands, crate::harness::tcp_in_strands);
table!(mixed, crate::harness::mixed);
table!(fabric, crate::harness::fabric);
table!(far_fabric, crate::harness::far_fabric);
