//! What the negotiation costs as ranks grow, as a table; see `hvd_simulate`.
//!
//! ```text
//! many_ranks [LARGEST]      both wirings for 8, 16 .. LARGEST ranks (16384)
//! ```
//!
//! Each row is made by a process of its own, so that its memory can be measured.

use std::fs;
use std::process::Command;

use hvd_simulate::{SimulatedJob, SimulationReport, Wiring, ready_barrier, simulate};

type Failure = Box<dyn std::error::Error>;

const HEADER: &str = "\
| ranks | wiring | step | messages | at rank 0 | most at a rank | KiB at rank 0 | answered after \
| connections at rank 0 | most | memory per rank |
|---|---|---|---|---|---|---|---|---|---|---|";

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => table(16384),
        [largest] => table(largest.parse()?),
        [ranks, wiring] => row(ranks.parse()?, wiring),
        _ => Err("usage: many_ranks [LARGEST]".into()),
    }
}

#[expect(clippy::print_stdout, reason = "this is the program's output")]
fn table(largest: usize) -> Result<(), Failure> {
    println!("{HEADER}");
    let mut ranks = 8;
    while ranks <= largest {
        for wiring in ["star", "tree", "schedule"] {
            let mut again = Command::new(std::env::current_exe()?);
            let status = again.args([&ranks.to_string(), wiring]).status()?;
            if !status.success() {
                return Err(format!("{ranks} ranks as a {wiring}: {status}").into());
            }
        }
        ranks *= 2;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is the program's output")]
fn row(ranks: usize, wiring: &str) -> Result<(), Failure> {
    let kind = match wiring {
        "star" => Wiring::Star,
        "tree" => Wiring::Tree,
        "schedule" => {
            scheduled(ranks);
            return Ok(());
        }
        _ => return Err("star, tree or schedule".into()),
    };
    let before = resident_kibibytes();
    let mut after = before;
    let report = simulate(&SimulatedJob::new(ranks, kind), 3, || {
        after = resident_kibibytes();
    })?;
    let memory = after.saturating_sub(before) / ranks as u64;
    for (step, name) in [(0, "first"), (2, "later")] {
        println!(
            "| {ranks} | {wiring} | {name} {}",
            cells(&report, step, Some(memory))
        );
    }
    Ok(())
}

/// An operation of a schedule, which no rank has to be asked about.
#[expect(clippy::print_stdout, reason = "this is the program's output")]
fn scheduled(ranks: usize) {
    let (step, partners) = ready_barrier(&SimulatedJob::new(ranks, Wiring::Star));
    let report = SimulationReport {
        steps: vec![step],
        most_connections: partners,
        root_connections: partners,
    };
    println!(
        "| {ranks} | schedule | operation {}",
        cells(&report, 0, None)
    );
}

fn cells(report: &SimulationReport, step: usize, memory: Option<u64>) -> String {
    let cost = report.steps[step];
    let memory = memory.map_or_else(String::new, |memory| format!("{memory} KiB"));
    format!(
        "| {} | {} | {} | {} | {:.2} ms | {} | {} | {memory} |",
        cost.messages,
        cost.root_messages,
        cost.most_messages,
        cost.root_bytes.div_ceil(1024),
        cost.answered_after.as_secs_f64() * 1e3,
        report.root_connections,
        report.most_connections,
    )
}

/// Memory of this process in KiB; 0 where the system does not report it.
fn resident_kibibytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4
}
