//! Measures the sums of all types on one core, in memory that stays in the cache and in more:
//! `cargo run --release -p hvd-collectives --example kernel_speed`.
//!
//! Prints the bytes of the accumulator reduced per second, the best of several runs.

#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]

use std::time::Instant;

use hvd_collectives::{Reduction, Result, kernel};
use hvd_types::DType;

/// Bytes of a buffer, and how often it is reduced in one run.
const SIZES: [(usize, u32); 2] = [(128 << 10, 500), (64 << 20, 1)];
const RUNS: usize = 10;

fn main() -> Result<()> {
    for dtype in DType::ALL {
        let [small, large] = SIZES.map(|size| rate(dtype, size));
        println!(
            "{:<10} {:6.1} GB/s in the cache, {:6.1} GB/s beyond",
            dtype.to_string(),
            small?,
            large?
        );
    }
    Ok(())
}

fn rate(dtype: DType, (bytes, repeats): (usize, u32)) -> Result<f64> {
    let (mut accumulator, operand) = (vec![0_u8; bytes], vec![1_u8; bytes]);
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..repeats {
            kernel::reduce(dtype, Reduction::Sum, &mut accumulator, &operand)?;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(repeats));
    }
    #[expect(clippy::cast_precision_loss, reason = "a round number")]
    let rate = bytes as f64 / best / 1e9;
    Ok(rate)
}
