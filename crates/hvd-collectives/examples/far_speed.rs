//! Measures allreduce between processes without the engine, so that a network is seen and nothing
//! else: `cargo build --release -p hvd-collectives --example far_speed`, and then
//! `horovodrun -np 2 -H one:1,two:1 target/release/examples/far_speed [BYTES ...]`.
//!
//! Prints the median time of one exchange of 4 bytes with the next rank, and for every size that
//! of an allreduce with each algorithm and its bandwidth on the bus, 2 (n - 1) / n times the bytes
//! by the time. With several ranks per host, `hosts` is the hierarchical one.

#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]
#![expect(
    clippy::cast_precision_loss,
    reason = "sizes and rates are printed rounded"
)]

use std::error::Error;
use std::time::{Duration, Instant};

use hvd_collectives::{
    Combine, Communicator, Reduction, Workspace, allreduce, barrier, halving_doubling_allreduce,
    hierarchical_allreduce, recursive_doubling_allreduce, ring_allreduce,
};
use hvd_config::{Environment, WorkerConfig};
use hvd_transport::{Abort, Transport, connect};
use hvd_types::{DType, Rank, Topology};

const SIZES: [usize; 6] = [4, 1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26];
const BUDGET: Duration = Duration::from_secs(2);
const COMBINE: Combine = Combine {
    dtype: DType::Float32,
    reduction: Reduction::Sum,
};

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let config = WorkerConfig::read(&Environment::of_process())?;
    let mut mesh = connect(&config, None, &Abort::new())?;
    let joined = start.elapsed();
    let transport = mesh.transport.as_mut();
    let members: Vec<Rank> = (0..transport.size()).map(Rank::from_index).collect();
    let topology = &mesh.topology;
    let mut bench = Bench {
        transport,
        members: &members,
        topology,
        workspace: Workspace::default(),
    };
    bench.say(&format!("joined in {joined:.0?}"));
    bench.exchange()?;
    let sizes: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    for &bytes in if sizes.is_empty() { &SIZES[..] } else { &sizes } {
        bench.size(bytes)?;
    }
    Ok(())
}

struct Bench<'a> {
    transport: &'a mut dyn Transport,
    members: &'a [Rank],
    topology: &'a Topology,
    workspace: Workspace,
}

/// One algorithm, run once on a buffer.
type Algorithm = fn(&mut Bench<'_>, &mut [u8]) -> hvd_collectives::Result<()>;

const ALGORITHMS: [(&str, Algorithm); 5] = [
    ("chosen", |bench, buffer| {
        let mut comm = Communicator::new(bench.transport, bench.members)?;
        allreduce(&mut comm, COMBINE, buffer, &mut bench.workspace)
    }),
    ("doubling", |bench, buffer| {
        let mut comm = Communicator::new(bench.transport, bench.members)?;
        recursive_doubling_allreduce(&mut comm, COMBINE, buffer, &mut bench.workspace)
    }),
    ("halving", |bench, buffer| {
        let mut comm = Communicator::new(bench.transport, bench.members)?;
        halving_doubling_allreduce(&mut comm, COMBINE, buffer, &mut bench.workspace)
    }),
    ("ring", |bench, buffer| {
        let mut comm = Communicator::new(bench.transport, bench.members)?;
        ring_allreduce(&mut comm, COMBINE, buffer, &mut bench.workspace)
    }),
    ("hosts", |bench, buffer| {
        let workspace = &mut bench.workspace;
        hierarchical_allreduce(bench.transport, bench.topology, COMBINE, buffer, workspace)
    }),
];

impl Bench<'_> {
    fn say(&self, text: &str) {
        if self.transport.rank() == Rank::COORDINATOR {
            println!("{text}");
        }
    }

    /// An exchange with the rank on the other side, which is on another host if there is one.
    fn exchange(&mut self) -> hvd_collectives::Result<()> {
        let (rank, size) = (self.transport.rank().index(), self.members.len());
        if !size.is_multiple_of(2) {
            return Ok(());
        }
        let peer = self.members[(rank + size / 2) % size];
        let median = self.median(4, |bench, buffer| {
            let sent = [1; 4];
            Ok(bench
                .transport
                .exchange(Some((peer, &sent)), Some((peer, buffer)))?)
        })?;
        self.say(&format!("exchange of 4 B: {:.1} us", median * 1e6));
        Ok(())
    }

    fn size(&mut self, bytes: usize) -> hvd_collectives::Result<()> {
        let mut line = vec![format!("{bytes:>10} B")];
        for (name, algorithm) in ALGORITHMS {
            if (name == "doubling" && bytes > 1 << 24)
                || (name == "hosts" && self.topology.host_count() == 1)
            {
                continue;
            }
            let median = self.median(bytes, algorithm)?;
            let size = self.members.len() as f64;
            let rate = 2.0 * (size - 1.0) / size * bytes as f64 / median / 1e9;
            line.push(format!("{name} {:.1} us {rate:.4} GB/s", median * 1e6));
        }
        self.say(&line.join("   "));
        Ok(())
    }

    /// Rank 0's median; all ranks repeat as often as its first run suggests.
    fn median(
        &mut self,
        bytes: usize,
        algorithm: impl Fn(&mut Self, &mut [u8]) -> hvd_collectives::Result<()>,
    ) -> hvd_collectives::Result<f64> {
        let mut buffer = vec![0; bytes];
        let mut times = Vec::new();
        algorithm(self, &mut buffer)?;
        let start = Instant::now();
        algorithm(self, &mut buffer)?;
        let first = start.elapsed().as_secs_f64();
        let mut runs = (BUDGET.as_secs_f64() / first)
            .clamp(3.0, 5000.0)
            .to_le_bytes();
        let mut comm = Communicator::new(self.transport, self.members)?;
        hvd_collectives::tree_broadcast(&mut comm, 0, &mut runs)?;
        barrier(&mut comm)?;
        let runs = f64::from_le_bytes(runs);
        while (times.len() as f64) < runs {
            let start = Instant::now();
            algorithm(self, &mut buffer)?;
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}
