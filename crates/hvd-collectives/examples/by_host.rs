//! Measures whether going by way of hosts pays, with ranks as threads on two made-up hosts, first
//! two on each and then two and one:
//! `cargo run --release -p hvd-collectives --example by_host`.
//!
//! Prints, for allreduce and allgather and several lengths, the time of the flat and of the
//! hierarchical algorithm in turn: the median of all operations, and the fastest. Connections
//! between the hosts go over the loopback interface, so the network is as good as it gets and what
//! remains is the work; on a slower one the hierarchical algorithm gains what it does not send.

#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]

use std::error::Error;
use std::thread;
use std::time::Instant;

use hvd_collectives::{
    Combine, Communicator, PartsMut, Reduction, Tuning, Workspace, allgather_in_place, allreduce,
    hierarchical_allgather, hierarchical_allreduce,
};
use hvd_transport::Transport;
use hvd_transport::testing::{Wire, mesh_of};
use hvd_types::{DType, Rank, Topology};

const LENGTHS: [usize; 6] = [4, 4 << 10, 64 << 10, 1 << 20, 8 << 20, 32 << 20];
const SUM: Combine = Combine {
    dtype: DType::Float32,
    reduction: Reduction::Sum,
};

/// What one rank needs to run an operation.
struct RankBench<'a> {
    transport: &'a mut dyn Transport,
    members: &'a [Rank],
    topology: &'a Topology,
    workspace: Workspace,
}

/// Does one operation on a buffer.
type Body = fn(&mut RankBench<'_>, &mut [u8]) -> hvd_collectives::Result<()>;

const PAIRS: [(&str, [Body; 2]); 2] = [
    ("allreduce", [flat_allreduce, host_allreduce]),
    ("allgather", [flat_allgather, host_allgather]),
];

fn main() -> Result<(), Box<dyn Error>> {
    for host_of in [&[0, 0, 1, 1][..], &[0, 0, 1]] {
        compare(host_of)?;
    }
    Ok(())
}

fn compare(host_of: &[usize]) -> Result<(), Box<dyn Error>> {
    let mut ends = mesh_of(Wire::Mixed, host_of.len());
    let members: Vec<Rank> = (0..host_of.len()).map(Rank::from_index).collect();
    let topology = Topology::new(host_of.iter().map(usize::to_string));
    println!("ranks on hosts {host_of:?}");
    println!("operation      bytes   flat us   (fastest)   by host us   (fastest)");
    for (name, bodies) in PAIRS {
        for length in LENGTHS {
            let times = thread::scope(|scope| {
                let ranks: Vec<_> = ends
                    .iter_mut()
                    .map(|end| {
                        let bench = RankBench {
                            transport: &mut *end.transport,
                            members: &members,
                            topology: &topology,
                            workspace: Workspace::new(Tuning::default()),
                        };
                        scope.spawn(move || measure(bench, bodies, length))
                    })
                    .collect();
                let outcomes = ranks.into_iter().map(thread::ScopedJoinHandle::join);
                outcomes.flatten().collect::<Result<Vec<_>, _>>()
            })?;
            let [[flat, fastest], [by_host, fastest_by_host]] = times[0];
            println!(
                "{name} {length:>10} {flat:9.1} {fastest:11.1} {by_host:12.1} {fastest_by_host:11.1}"
            );
        }
    }
    Ok(())
}

/// The median and the least time of both bodies, run in turn.
fn measure(
    mut bench: RankBench<'_>,
    bodies: [Body; 2],
    length: usize,
) -> hvd_collectives::Result<[[f64; 2]; 2]> {
    let repeats = ((256 << 20) / length).clamp(10, 2000);
    let mut buffer = vec![0; length];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..repeats {
        for (body, times) in bodies.iter().zip(&mut times) {
            let start = Instant::now();
            body(&mut bench, &mut buffer)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [times[times.len() / 2], times[0]]
    }))
}

fn flat_allreduce(bench: &mut RankBench<'_>, buffer: &mut [u8]) -> hvd_collectives::Result<()> {
    let mut comm = Communicator::new(bench.transport, bench.members)?;
    allreduce(&mut comm, SUM, buffer, &mut bench.workspace)
}

fn host_allreduce(bench: &mut RankBench<'_>, buffer: &mut [u8]) -> hvd_collectives::Result<()> {
    hierarchical_allreduce(
        bench.transport,
        bench.topology,
        SUM,
        buffer,
        &mut bench.workspace,
    )
}

fn flat_allgather(bench: &mut RankBench<'_>, buffer: &mut [u8]) -> hvd_collectives::Result<()> {
    let output = PartsMut {
        counts: &counts(buffer, bench.members.len()),
        bytes: buffer,
    };
    let mut comm = Communicator::new(bench.transport, bench.members)?;
    allgather_in_place(&mut comm, output, &bench.workspace.tuning)
}

fn host_allgather(bench: &mut RankBench<'_>, buffer: &mut [u8]) -> hvd_collectives::Result<()> {
    let output = PartsMut {
        counts: &counts(buffer, bench.members.len()),
        bytes: buffer,
    };
    hierarchical_allgather(
        bench.transport,
        bench.topology,
        output,
        &bench.workspace.tuning,
    )
}

/// Equal parts, and what is left over in the last one.
fn counts(buffer: &[u8], ranks: usize) -> Vec<usize> {
    let mut counts = vec![buffer.len() / ranks; ranks];
    counts[ranks - 1] += buffer.len() % ranks;
    counts
}
