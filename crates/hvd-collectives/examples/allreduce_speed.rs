//! Measures allreduce between ranks that are threads of this process, over shared memory:
//! `cargo run --release -p hvd-collectives --example allreduce_speed [ranks [chunk KiB]]`.
//!
//! Prints the least and the median time of a float32 sum in place for each size, next to that of the ring that
//! ranks on different hosts use.

#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use hvd_collectives::{
    Combine, Communicator, Reduction, Result, Tensor, TensorMemory, Workspace, ring_allreduce,
    shared_allreduce,
};
use hvd_transport::Mesh;
use hvd_transport::testing::{Wire, mesh_of};
use hvd_types::{DType, Rank};

const COMBINE: Combine = Combine {
    dtype: DType::Float32,
    reduction: Reduction::Sum,
};

/// Sizes in bytes.
const SIZES: [usize; 6] = [4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];

/// Reduces a buffer over all members.
type Algorithm = fn(&mut Communicator<'_>, &mut [u8], &mut Workspace) -> Result<()>;

fn main() {
    let ranks = number(1).unwrap_or(2);
    let mut ends = mesh_of(Wire::SharedMemory, ranks);
    for bytes in SIZES {
        let shared = times(&mut ends, bytes, in_shared_memory);
        let ring = times(&mut ends, bytes, |comm, buffer, workspace| {
            ring_allreduce(comm, COMBINE, buffer, workspace)
        });
        println!(
            "{ranks} ranks {bytes:>10} bytes: shared {:>9.1} {:>9.1} us, ring {:>9.1} {:>9.1} us",
            shared[0], shared[1], ring[0], ring[1]
        );
    }
}

/// An argument of this program.
fn number(position: usize) -> Option<usize> {
    std::env::args().nth(position)?.parse().ok()
}

fn in_shared_memory(
    comm: &mut Communicator<'_>,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    let memory = TensorMemory::InPlace(buffer);
    let mut tensors = [Tensor {
        memory,
        factor: 1.0,
    }];
    shared_allreduce(comm, COMBINE, 1.0, &mut tensors, workspace)?;
    Ok(())
}

/// The least and the median time in microseconds.
fn times(ends: &mut [Mesh], bytes: usize, algorithm: Algorithm) -> [f64; 2] {
    let members: Vec<Rank> = (0..ends.len()).map(Rank::from_index).collect();
    let rounds = ((1 << 30) / bytes.max(1)).clamp(9, 2000);
    let start = Barrier::new(ends.len());
    let times: Vec<Vec<f64>> = thread::scope(|scope| {
        let ranks: Vec<_> = ends
            .iter_mut()
            .map(|end| {
                let (members, start) = (&members, &start);
                scope.spawn(move || rank(end, members, (bytes, rounds), start, algorithm))
            })
            .collect();
        let times = ranks.into_iter().filter_map(|rank| rank.join().ok());
        times.filter_map(Result::ok).collect()
    });
    let mut first = times.into_iter().next().unwrap_or_default();
    first.sort_by(f64::total_cmp);
    let at = |index: usize| first.get(index).copied().unwrap_or(f64::NAN);
    [at(0), at(first.len() / 2)]
}

fn rank(
    end: &mut Mesh,
    members: &[Rank],
    (bytes, rounds): (usize, usize),
    start: &Barrier,
    algorithm: Algorithm,
) -> Result<Vec<f64>> {
    let mut comm = Communicator::new(end.transport.as_mut(), members)?;
    let (mut buffer, mut workspace) = (vec![0_u8; bytes], Workspace::default());
    if let Some(chunk) = number(2) {
        workspace.tuning.chunk_bytes = chunk << 10;
    }
    buffer.fill(0);
    start.wait();
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begin = Instant::now();
        algorithm(&mut comm, &mut buffer, &mut workspace)?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}
