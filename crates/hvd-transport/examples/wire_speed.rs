//! Measures what moves the bytes, between two ranks as threads:
//! `cargo run --release -p hvd-transport --example wire_speed`.
//!
//! Prints the time of one round trip of 8 bytes and the rate of large messages in one direction
//! and in both at once, as the median of several runs with the spread.

#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]

use std::thread;
use std::time::Instant;

use hvd_transport::testing::{Wire, mesh_of};
use hvd_transport::{Mesh, Result, Transport};
use hvd_types::Rank;

const RUNS: usize = 7;
const ROUNDS: u32 = 5_000;
const LARGE: usize = 8 << 20;
const REPEATS: u32 = 20;

/// What one rank does, returning the seconds it took.
type Body = fn(&mut dyn Transport, Rank) -> Result<f64>;

/// What is measured: a wire, its ranks, and the one that rank 0 talks to.
const CASES: [(&str, Wire, usize, u32); 5] = [
    ("Memory", Wire::Memory, 2, 1),
    ("SharedMemory", Wire::SharedMemory, 2, 1),
    ("Tcp", Wire::Tcp, 2, 1),
    ("Mixed, near", Wire::Mixed, 4, 1),
    ("Mixed, far", Wire::Mixed, 4, 2),
];

fn main() -> Result<()> {
    let trip = |seconds: f64| seconds / f64::from(ROUNDS) * 1e6;
    #[expect(clippy::cast_precision_loss, reason = "a round number")]
    let rate = |seconds: f64| f64::from(REPEATS) * LARGE as f64 / seconds / 1e9;
    for (name, wire, size, peer) in CASES {
        let measure = |body: Body| {
            let mut ends = mesh_of(wire, size);
            let runs = (0..RUNS).map(|_| run(&mut ends, Rank::new(peer), body));
            runs.collect::<Result<Vec<f64>>>()
        };
        report(name, "round trip of 8 bytes, us", measure(ping_pong)?, trip);
        report(name, "one way, GB/s", measure(one_way)?, rate);
        report(name, "both ways, GB/s each", measure(both_ways)?, rate);
    }
    Ok(())
}

fn report(name: &str, what: &str, mut seconds: Vec<f64>, unit: impl Fn(f64) -> f64) {
    seconds.sort_by(f64::total_cmp);
    let [fast, middle, slow] = [0, RUNS / 2, RUNS - 1].map(|index| unit(seconds[index]));
    println!("{name:<14} {what:<26} {middle:8.2}   ({fast:.2} to {slow:.2})");
}

fn run(ends: &mut [Mesh], peer: Rank, body: Body) -> Result<f64> {
    let (zero, others) = ends.split_at_mut(1);
    let one = &mut others[peer.index() - 1];
    thread::scope(|scope| {
        let other = scope.spawn(move || body(&mut *one.transport, Rank::COORDINATOR));
        let seconds = body(&mut *zero[0].transport, peer);
        if let Ok(outcome) = other.join() {
            outcome?;
        }
        seconds
    })
}

fn ping_pong(transport: &mut dyn Transport, peer: Rank) -> Result<f64> {
    let (start, mut ball) = (Instant::now(), [0; 8]);
    for _ in 0..ROUNDS {
        if transport.rank() < peer {
            transport.send(peer, &ball)?;
            transport.recv(peer, &mut ball)?;
        } else {
            transport.recv(peer, &mut ball)?;
            transport.send(peer, &ball)?;
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn one_way(transport: &mut dyn Transport, peer: Rank) -> Result<f64> {
    let mut bytes = vec![1; LARGE];
    let start = Instant::now();
    for _ in 0..REPEATS {
        if transport.rank() < peer {
            transport.send(peer, &bytes)?;
        } else {
            transport.recv(peer, &mut bytes)?;
        }
    }
    // The sender is done when the receiver is.
    if transport.rank() < peer {
        transport.recv(peer, &mut [0])?;
    } else {
        transport.send(peer, &[0])?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn both_ways(transport: &mut dyn Transport, peer: Rank) -> Result<f64> {
    let (out, mut back) = (vec![1; LARGE], vec![0; LARGE]);
    let start = Instant::now();
    for _ in 0..REPEATS {
        transport.exchange(Some((peer, &out)), Some((peer, &mut back)))?;
    }
    Ok(start.elapsed().as_secs_f64())
}
