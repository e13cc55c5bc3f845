//! Ranks as threads, one mesh per group size for all cases of a test.

use hvd_collectives::{Communicator, Tuning, Workspace};
use hvd_testkit::run_ranks_with;
use hvd_transport::testing::{Setup, Wire};
use hvd_transport::{Mesh, Transport};
use hvd_types::{Rank, Topology};

/// How a test gets its mesh: the ends of a mesh of some size, in order of rank.
pub(crate) type MakeMesh = fn(usize) -> Vec<Mesh>;

/// Queues shorter than a chunk and no multiple of any element, so that everything splits.
pub(crate) fn memory(size: usize) -> Vec<Mesh> {
    Setup::new(Wire::Memory, size).tight(150).build()
}

/// Rings shorter than a chunk.
pub(crate) fn shared_memory(size: usize) -> Vec<Mesh> {
    Setup::new(Wire::SharedMemory, size).tight(128).build()
}

/// Connections over the loopback interface.
pub(crate) fn tcp(size: usize) -> Vec<Mesh> {
    Setup::new(Wire::Tcp, size).build()
}

/// Three connections per pair of ranks, which take turns in the middle of elements.
pub(crate) fn tcp_in_strands(size: usize) -> Vec<Mesh> {
    Setup::new(Wire::Tcp, size)
        .connections(3)
        .tight(150)
        .build()
}

/// Two hosts: tight rings inside them, connections between them.
pub(crate) fn mixed(size: usize) -> Vec<Mesh> {
    Setup::new(Wire::Mixed, size).tight(128).build()
}

/// Two hosts: tight rings inside them, and between them a library that moves bytes only while it is
/// called.
pub(crate) fn fabric(size: usize) -> Vec<Mesh> {
    Setup::new(Wire::Fabric, size).tight(128).build()
}

/// A host for every rank, and such a library between them, which also moves whole messages.
pub(crate) fn far_fabric(size: usize) -> Vec<Mesh> {
    Setup::new(Wire::FarFabric, size).tight(128).build()
}

/// Elements per case: nothing, one, fewer than ranks or not divisible, several chunks per block.
pub(crate) const LENGTHS: [usize; 4] = [0, 1, 13, 1037];

/// Chunks of a few dozen elements; the longest buffers are not small, the others are.
pub(crate) const TUNING: Tuning = Tuning {
    chunk_bytes: 205,
    small_allreduce_bytes: 104,
    small_broadcast_bytes: 104,
    cost: None,
};

/// Runs `body` on every member of one group and returns the results by rank.
fn run<T: Send + 'static>(
    mesh: Vec<Mesh>,
    members: Vec<Rank>,
    body: impl Fn(&mut Communicator<'_>, &mut Workspace) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let results = run_ranks_with(mesh, move |_, mut end| {
        let mut comm = Communicator::new(end.transport.as_mut(), &members).unwrap();
        let result = body(&mut comm, &mut Workspace::new(TUNING));
        (result, end)
    });
    // No end is closed before all are done: for the others that would be a rank that died.
    let (results, _ends): (Vec<T>, Vec<Mesh>) = results.into_iter().unzip();
    results
}

/// Runs `body` in one group of `size` ranks over memory and returns the results by rank.
pub(crate) fn in_group<T: Send + 'static>(
    size: usize,
    body: impl Fn(&mut Communicator<'_>, &mut Workspace) -> T + Send + Sync + 'static,
) -> Vec<T> {
    run(
        memory(size),
        (0..size).map(Rank::from_index).collect(),
        body,
    )
}

/// What every rank does: all cases of a test, in the same order. It checks its own results and
/// returns those that have to be equal on all ranks.
pub(crate) trait Body: Fn(&mut Communicator<'_>, &mut Workspace) -> Vec<u8> {}
impl<F: Fn(&mut Communicator<'_>, &mut Workspace) -> Vec<u8>> Body for F {}

/// Runs `body` in groups of 1 to 8 ranks and compares what they return.
pub(crate) fn on_every_size(make: MakeMesh, body: impl Body + Send + Sync + Copy + 'static) {
    on_sizes(make, &[1, 2, 3, 4, 5, 6, 7, 8], body);
}

/// Runs `body` in groups of some sizes and compares what they return.
pub(crate) fn on_sizes(
    make: MakeMesh,
    sizes: &[usize],
    body: impl Body + Send + Sync + Copy + 'static,
) {
    for &size in sizes {
        // Not in order of rank, so that a position taken for a rank is found out.
        let members: Vec<Rank> = (0..size)
            .map(|at| Rank::from_index((at + 1) % size))
            .collect();
        assert_same_bits(&run(make(size), members, body), &format!("{size} ranks"));
    }
}

/// The topology of ranks that are on the hosts with these numbers.
pub(crate) fn topology(host_of: &[usize]) -> Topology {
    Topology::new(host_of.iter().map(usize::to_string))
}

/// As [`Body`], over hosts.
pub(crate) trait HostsBody:
    Fn(&mut dyn Transport, &Topology, &mut Workspace) -> Vec<u8>
{
}
impl<F: Fn(&mut dyn Transport, &Topology, &mut Workspace) -> Vec<u8>> HostsBody for F {}

/// Runs `body` on all ranks of jobs spread over hosts in several ways, and compares what they
/// return.
pub(crate) fn on_hosts(
    make: MakeMesh,
    spreads: &[&[usize]],
    body: impl HostsBody + Send + Sync + Copy + 'static,
) {
    for &host_of in spreads {
        let topology = topology(host_of);
        let results = run_ranks_with(make(host_of.len()), move |_, mut end| {
            let mut workspace = Workspace::new(TUNING);
            (body(end.transport.as_mut(), &topology, &mut workspace), end)
        });
        let (results, _ends): (Vec<_>, Vec<Mesh>) = results.into_iter().unzip();
        assert_same_bits(&results, &format!("ranks on hosts {host_of:?}"));
    }
}

fn assert_same_bits(results: &[Vec<u8>], group: &str) {
    for (rank, result) in results.iter().enumerate() {
        assert!(
            *result == results[0],
            "rank {rank} of {group} got other bits than rank 0"
        );
    }
}
