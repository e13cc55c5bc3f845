//! The table of pairs: every pair as long as they fit on two screens; of more, those that matter.

use std::{cmp::Ordering, fmt::Write as _};

use super::{PairReport, Pen, RED, WIDTH, counted};
use crate::{
    hosts::probe::ProbeFailure,
    text::{self, TextTable},
};

/// As many pairs as eight hosts have, and some more, are shown one by one.
const SHOWN: usize = 72;

/// Of more pairs, so many of the slowest are.
const SLOWEST: usize = 10;

/// The lines about pairs, an empty one first; none if there are no pairs.
pub(super) fn section(pairs: &[PairReport], pen: Pen) -> Vec<String> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let chosen = chosen(pairs);
    let mut table = TextTable::new(&["from", "to", "address", "round trip", "bandwidth", ""]);
    for pair in &chosen {
        table.row(cells(pair));
    }
    let mut lines = vec![String::new()];
    lines.extend(pen.table(table.lines(WIDTH)));
    for (line, pair) in lines.iter_mut().skip(2).zip(&chosen) {
        if pair.failure.is_some() {
            *line = pen.paint(RED, line);
        }
    }
    if chosen.len() < pairs.len() {
        lines.push(summary(pairs, chosen.len()));
    }
    lines.extend(unmeasured(pairs));
    lines
}

/// Says so if the bandwidth of some pairs only was measured, as it is with many hosts.
fn unmeasured(pairs: &[PairReport]) -> Option<String> {
    let working = pairs.iter().filter(|pair| pair.failure.is_none());
    let all = working.clone().count();
    let measured_pairs = working.filter(|pair| pair.bytes_per_second.is_some());
    let measured_pairs = measured_pairs.count();
    (measured_pairs < all).then(|| {
        format!("bandwidth was measured for {measured_pairs} of the {all} pairs that work")
    })
}

/// All pairs, or those that fail and the slowest of the others.
fn chosen(pairs: &[PairReport]) -> Vec<&PairReport> {
    if pairs.len() <= SHOWN {
        return pairs.iter().collect();
    }
    let (failed, mut working): (Vec<_>, Vec<_>) =
        pairs.iter().partition(|pair| pair.failure.is_some());
    working.sort_by(|one, other| slower_first(one, other));
    failed
        .into_iter()
        .chain(working.into_iter().take(SLOWEST))
        .collect()
}

fn slower_first(one: &PairReport, other: &PairReport) -> Ordering {
    let rate = |pair: &PairReport| pair.bytes_per_second.unwrap_or(f64::INFINITY);
    let trip = |pair: &PairReport| pair.round_trip_seconds.unwrap_or(0.0);
    let by_rate = rate(one).total_cmp(&rate(other));
    by_rate.then_with(|| trip(other).total_cmp(&trip(one)))
}

fn cells(pair: &PairReport) -> Vec<String> {
    let address = pair.address.map(|address| address.to_string());
    let mut cells = vec![
        pair.from.clone(),
        pair.to.clone(),
        address.unwrap_or_else(|| "-".to_owned()),
    ];
    cells.push(
        pair.round_trip_seconds
            .map_or_else(String::new, text::seconds),
    );
    cells.push(pair.bytes_per_second.map_or_else(String::new, text::rate));
    cells.push(pair.failure.as_ref().map_or_else(String::new, short));
    cells
}

/// Without its guess about the reason: the table of all pairs allows a better one.
fn short(failure: &ProbeFailure) -> String {
    let text = failure.to_string();
    let what = text.split(';').next().unwrap_or_default();
    what.to_owned()
}

fn summary(pairs: &[PairReport], shown: usize) -> String {
    let mut trips: Vec<f64> = pairs
        .iter()
        .filter_map(|pair| pair.round_trip_seconds)
        .collect();
    trips.sort_by(f64::total_cmp);
    let mut line = format!(
        "and {} that work",
        counted(pairs.len() - shown, "more pair")
    );
    if let (Some(&least), Some(&middle), Some(&most)) =
        (trips.first(), trips.get(trips.len() / 2), trips.last())
    {
        let _ = write!(
            line,
            "; round trips from {} to {}, half of them under {}",
            text::seconds(least),
            text::seconds(most),
            text::seconds(middle)
        );
    }
    line
}
