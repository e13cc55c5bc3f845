//! The table of what was tried: one row per observation, comma separated, the last one the best.
//!
//! The first columns are upstream's, in its order and units; what is tuned only here comes after
//! them, so that programs that read those find them. An earlier table can be read back, to begin
//! where it ended. Written by rank 0 between two operations, a line at a time.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use super::parameters::{Parameters, float};
use crate::output_file;

const COLUMNS: [&str; 9] = [
    "hierarchical_allreduce",
    "hierarchical_allgather",
    "torus_allreduce",
    "cache_enabled",
    "cycle_time_ms",
    "tensor_fusion_threshold",
    "score",
    "chunk_bytes",
    "small_allreduce_bytes",
];

const MEBIBYTE: f64 = 1_048_576.0;

/// A table that is being written.
#[derive(Debug)]
pub(super) struct AutotuneLog(File);

impl AutotuneLog {
    /// Begins a table, over an older one if there is one.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = output_file::create(path)?;
        writeln!(file, "{}", COLUMNS.join(","))?;
        Ok(Self(file))
    }

    /// Appends a row.
    pub(super) fn row(&mut self, parameters: &Parameters, speed: f64) -> io::Result<()> {
        // One write, so that a reader sees whole rows.
        let row = format!("{}\n", row(parameters, speed));
        self.0.write_all(row.as_bytes())
    }
}

/// Why an earlier table cannot be continued.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it has no row")]
    Empty,
    #[error("`{text}` in column `{column}` of the last row is not a value")]
    Malformed { column: String, text: String },
}

/// The parameters of the last row of a table; those it has no column for are as in `otherwise`.
pub(super) fn last_row(path: &Path, otherwise: Parameters) -> Result<Parameters, Unreadable> {
    parse(&std::fs::read_to_string(path)?, otherwise)
}

fn parse(table: &str, otherwise: Parameters) -> Result<Parameters, Unreadable> {
    let mut lines = table.lines().filter(|line| !line.trim().is_empty());
    let header = lines.next().ok_or(Unreadable::Empty)?;
    let row = lines.next_back().ok_or(Unreadable::Empty)?;
    let mut parameters = otherwise;
    for (column, text) in header.split(',').zip(row.split(',')) {
        let (column, text) = (column.trim(), text.trim());
        let malformed = || Unreadable::Malformed {
            column: column.to_owned(),
            text: text.to_owned(),
        };
        let value = text.parse().ok().and_then(value);
        put(&mut parameters, column, value.ok_or_else(malformed)?);
    }
    Ok(parameters)
}

/// A number that can be a value: neither negative nor absurd.
fn value(number: f64) -> Option<f64> {
    (0.0..=1e12).contains(&number).then_some(number)
}

fn put(parameters: &mut Parameters, column: &str, value: f64) {
    let flag = value != 0.0;
    match column {
        "hierarchical_allreduce" => parameters.hierarchy.allreduce = flag,
        "hierarchical_allgather" => parameters.hierarchy.allgather = flag,
        "cache_enabled" => parameters.cache = flag,
        "cycle_time_ms" => parameters.cycle_time = Duration::from_secs_f64(value / 1000.0),
        "tensor_fusion_threshold" => parameters.fusion_threshold = whole(value * MEBIBYTE),
        "chunk_bytes" => parameters.chunk_bytes = whole(value),
        "small_allreduce_bytes" => parameters.small_allreduce_bytes = whole(value),
        _ => {}
    }
}

fn row(parameters: &Parameters, speed: f64) -> String {
    let Parameters {
        fusion_threshold,
        cycle_time,
        chunk_bytes,
        small_allreduce_bytes,
        hierarchy,
        cache,
    } = parameters;
    format!(
        "{},{},0,{},{},{},{speed:.6},{chunk_bytes},{small_allreduce_bytes}",
        u8::from(hierarchy.allreduce),
        u8::from(hierarchy.allgather),
        u8::from(*cache),
        milliseconds(*cycle_time),
        float(*fusion_threshold) / MEBIBYTE,
    )
}

/// The same for people.
pub(super) fn sentence(parameters: &Parameters, speed: f64) -> String {
    let Parameters {
        fusion_threshold,
        cycle_time,
        chunk_bytes,
        small_allreduce_bytes,
        hierarchy,
        cache,
    } = parameters;
    format!(
        "{speed:.3} bytes/us with a fusion threshold of {fusion_threshold} bytes, a cycle time of \
         {} ms, chunks of {chunk_bytes} bytes, few steps up to {small_allreduce_bytes} bytes, \
         hierarchical allreduce {}, hierarchical allgather {}, response cache {}",
        milliseconds(*cycle_time),
        on_off(hierarchy.allreduce),
        on_off(hierarchy.allgather),
        on_off(*cache),
    )
}

fn on_off(flag: bool) -> &'static str {
    if flag { "on" } else { "off" }
}

/// With as many digits as it takes.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1000.0
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the caller has checked that it is neither negative nor absurd"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::parameters::tests::defaults;
    use super::*;

    fn other() -> Parameters {
        let mut other = Parameters {
            fusion_threshold: 3 << 15,
            cycle_time: Duration::from_micros(2_345),
            chunk_bytes: 16 << 10,
            small_allreduce_bytes: 1 << 10,
            cache: false,
            ..defaults()
        };
        other.hierarchy.allreduce = true;
        other
    }

    #[test]
    fn a_table_is_written_as_documented_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        std::fs::write(&path, "something older\n".repeat(100)).unwrap();
        let mut log = AutotuneLog::create(&path).unwrap();
        assert!(matches!(
            last_row(&path, defaults()),
            Err(Unreadable::Empty)
        ));
        log.row(&defaults(), 12.5).unwrap();
        log.row(&other(), 0.25).unwrap();
        let expected = "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,\
             cache_enabled,cycle_time_ms,tensor_fusion_threshold,score,chunk_bytes,\
             small_allreduce_bytes\n\
             0,0,0,1,0,128,12.500000,262144,32768\n\
             1,0,0,0,2.345,0.09375,0.250000,16384,1024\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(last_row(&path, defaults()).unwrap(), other());
    }

    #[test]
    fn a_table_of_upstream_is_read_too() {
        let table = "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,\
             cycle_time_ms,tensor_fusion_threshold,score\n0,0,0, 1,5,4,17.2\n0,1,0, 0,2.5,32,20.1\n";
        let parameters = parse(table, defaults()).unwrap();
        assert_eq!(parameters.fusion_threshold, 32 << 20);
        assert_eq!(parameters.cycle_time, Duration::from_micros(2_500));
        assert!(parameters.hierarchy.allgather && !parameters.cache);
        assert_eq!(parameters.chunk_bytes, defaults().chunk_bytes);
    }

    #[test]
    fn what_is_not_a_table_is_refused() {
        for (table, expected) in [
            ("", "it has no row"),
            ("cycle_time_ms\n\n", "it has no row"),
            (
                "cycle_time_ms\n-1",
                "`-1` in column `cycle_time_ms` of the last row is not a value",
            ),
            (
                "score\nNaN",
                "`NaN` in column `score` of the last row is not a value",
            ),
            (
                "chunk_bytes\n1e99",
                "`1e99` in column `chunk_bytes` of the last row is not a value",
            ),
            (
                "score\nfast",
                "`fast` in column `score` of the last row is not a value",
            ),
        ] {
            let error = parse(table, defaults()).unwrap_err().to_string();
            assert_eq!(error, expected);
        }
    }
}
