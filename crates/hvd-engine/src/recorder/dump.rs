//! The ring as a text file: a few lines about the rank, then a table with one line an operation,
//! oldest first. Submission is in seconds since 1970, to compare files of several ranks; the later
//! times are seconds after it.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::{About, History, Record};
use crate::output_file;

impl History {
    /// Writes the ring to `horovod-rank-<rank>.txt` in a directory, which is made if need be, and
    /// returns the file's path. An older dump is replaced.
    pub(crate) fn dump(&self, directory: &Path, about: About<'_>) -> io::Result<PathBuf> {
        fs::create_dir_all(directory)?;
        let path = directory.join(format!("horovod-rank-{}.txt", about.rank));
        output_file::create(&path)?.write_all(self.render(about).as_bytes())?;
        Ok(path)
    }

    /// The text of a dump.
    pub(super) fn render(&self, about: About<'_>) -> String {
        let records = self.snapshot();
        let started = self.ring.started_wall.duration_since(UNIX_EPOCH);
        let started = started.unwrap_or_default();
        let mut text = format!(
            "# horovod operations of rank {} on host {}\n# reason: {}\n# operations: {}, oldest \
             first\n",
            about.rank,
            one_line(about.host),
            one_line(about.reason),
            records.len()
        );
        let titles = TITLES.map(str::to_owned);
        let rows = records.iter().map(|record| row(record, started));
        table(
            &mut text,
            &std::iter::once(titles).chain(rows).collect::<Vec<_>>(),
        );
        text
    }
}

/// A line of the table. The name stands last, as the one cell of any length.
type DumpRow = [String; 11];

const TITLES: [&str; 11] = [
    "number",
    "state",
    "operation",
    "dtype",
    "shape",
    "set",
    "submitted",
    "negotiating",
    "executing",
    "ended",
    "name",
];

fn row(record: &Record, started: Duration) -> DumpRow {
    let [submitted, later @ ..] = record.times;
    let submitted = submitted.unwrap_or_default();
    let after = |time: Option<Duration>| match time {
        Some(time) => format!("+{}", seconds(time.saturating_sub(submitted))),
        None => "-".to_owned(),
    };
    let [negotiating, executing, ended] = later.map(after);
    [
        record.number.0.to_string(),
        record.state.name().to_owned(),
        record.kind.to_string(),
        record.dtype.to_string(),
        shape(record),
        record.process_set.to_string(),
        seconds(started + submitted),
        negotiating,
        executing,
        ended,
        one_line(&record.name),
    ]
}

fn table(text: &mut String, rows: &[DumpRow]) {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max();
    let widths: [usize; 10] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for row in rows {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", row[10]);
    }
}

fn shape(record: &Record) -> String {
    let mut cells: Vec<_> = record.dimensions.iter().map(u64::to_string).collect();
    if record.dimension_count > cells.len() {
        cells.push("...".to_owned());
    }
    format!("[{}]", cells.join(","))
}

fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

/// Control characters spelled out, so that nothing breaks the table.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}
