//! Who reaches whom as text of at most 100 columns: a table for up to eight hosts, with rows for
//! who connects and columns for who is connected to, and a list for more. The table takes the
//! fullest of three forms that fits: reasons in the cells, reasons below, addresses below as well.

use std::{net::IpAddr, time::Duration};

use super::{HostRoute, Reachability, RouteOutcome};
use crate::text::words;

/// Columns of a terminal that people do not have to widen.
const WIDTH: usize = 100;

/// Most hosts that are shown as a table.
const TABLE_HOSTS: usize = 8;

/// Most failures that are listed one by one.
const LISTED_FAILURES: usize = 20;

/// Longest name of a host in a row of the narrow table, and elsewhere.
const NARROW_NAME: usize = 16;
const LONG_NAME: usize = 40;

impl Reachability {
    /// Who reaches whom at which address, for `--verbose` and for failures. Ends with a line feed.
    pub fn matrix(&self) -> String {
        if self.hosts.len() > TABLE_HOSTS {
            return self.list();
        }
        let mut notes = Vec::new();
        let inline = self.table(|host| self.short(host), |host| self.short(host), inline);
        if fits(&inline) {
            return inline;
        }
        let cell = |route: &HostRoute| with_note(route, &mut notes);
        let table = self.table(|host| self.short(host), |host| self.short(host), cell);
        if fits(&table) {
            return table + &legend_of_notes(&notes);
        }
        self.narrow()
    }

    /// Numbers for hosts, letters for addresses; both are explained below the table.
    fn narrow(&self) -> String {
        let mut notes = Vec::new();
        let row = |host| format!("{} {}", host + 1, cut(self.name(host), NARROW_NAME));
        let column = |host| format!("to {}", host + 1);
        let table = self.table(row, column, |route| match &route.outcome {
            RouteOutcome::Reached {
                address,
                round_trip,
            } => {
                let letter = self.letter(route.to, *address);
                format!("{letter} {}", time(*round_trip).replace(' ', ""))
            }
            RouteOutcome::Failed(_) => failed(route, &mut notes),
        });
        let mut text = table;
        for to in 0..self.hosts.len() {
            text += &self.legend_of_addresses(to);
        }
        text + &legend_of_notes(&notes)
    }

    fn letter(&self, to: usize, address: IpAddr) -> char {
        let position = self.targets[to]
            .iter()
            .position(|target| target.address == address);
        ('a'..='z')
            .nth(position.unwrap_or(usize::MAX))
            .unwrap_or('?')
    }

    /// What the letters of one column mean; nothing if no letter is in it.
    fn legend_of_addresses(&self, to: usize) -> String {
        let used = |address: IpAddr| {
            let mut routes = self.routes.iter().filter(|route| route.to == to);
            routes.any(|route| self.address(route.from, to) == Some(address))
        };
        let targets = self.targets[to]
            .iter()
            .filter(|target| used(target.address));
        let meanings: Vec<String> = targets
            .map(|target| {
                let letter = self.letter(to, target.address);
                format!("{letter} = {}", self.located(to, target.address))
            })
            .collect();
        if meanings.is_empty() {
            return String::new();
        }
        wrap(
            &format!("to {}, {}: {}", to + 1, self.short(to), meanings.join(", ")),
            4,
        )
    }

    /// The address with the interface that has it.
    fn located(&self, host: usize, address: IpAddr) -> String {
        let target = self.targets[host]
            .iter()
            .find(|target| target.address == address);
        match target.and_then(|target| target.interface.as_ref()) {
            Some(interface) => format!("{address} ({interface})"),
            None => address.to_string(),
        }
    }

    fn table(
        &self,
        row_name: impl Fn(usize) -> String,
        column_name: impl Fn(usize) -> String,
        mut cell: impl FnMut(&HostRoute) -> String,
    ) -> String {
        let hosts = 0..self.hosts.len();
        let mut rows = vec![vec!["from \\ to".to_owned()]];
        rows[0].extend(hosts.clone().map(column_name));
        for from in hosts.clone() {
            let mut row = vec![row_name(from)];
            for to in hosts.clone() {
                let route = self.route(from, to);
                row.push(route.map_or_else(|| "-".to_owned(), &mut cell));
            }
            rows.push(row);
        }
        aligned(&rows)
    }

    /// More hosts than a table has room for: the failures, or where each host is reached.
    fn list(&self) -> String {
        let (hosts, pairs) = (self.hosts.len(), self.routes.len());
        let failures: Vec<_> = self.failures().collect();
        if failures.is_empty() {
            let mut text = format!("all {pairs} connections between {hosts} hosts work\n");
            for to in 0..hosts {
                text += &self.reached_at(to);
            }
            return text;
        }
        let count = failures.len();
        let mut text = format!("{count} of {pairs} connections between {hosts} hosts fail\n");
        for route in failures.iter().take(LISTED_FAILURES) {
            let (from, to) = (self.short(route.from), self.short(route.to));
            text += &wrap(&format!("{from} to {to}: {}", inline(route)), 4);
        }
        if count > LISTED_FAILURES {
            text += &wrap(&format!("and {} more", count - LISTED_FAILURES), 0);
        }
        text
    }

    fn reached_at(&self, to: usize) -> String {
        let mut used: Vec<(IpAddr, usize)> = Vec::new();
        for from in 0..self.hosts.len() {
            let Some(address) = self.address(from, to) else {
                continue;
            };
            match used.iter_mut().find(|(known, _)| *known == address) {
                Some((_, count)) => *count += 1,
                None => used.push((address, 1)),
            }
        }
        let places = used
            .iter()
            .map(|(address, count)| format!("{} by {count} hosts", self.located(to, *address)));
        let places: Vec<_> = places.collect();
        wrap(
            &format!("{} is reached at {}", self.short(to), places.join(", ")),
            4,
        )
    }

    /// The host's name at a length that leaves room for a sentence.
    pub(super) fn short(&self, host: usize) -> String {
        cut(self.name(host), LONG_NAME)
    }
}

fn inline(route: &HostRoute) -> String {
    match &route.outcome {
        RouteOutcome::Reached {
            address,
            round_trip,
        } => format!("{address} {}", time(*round_trip)),
        RouteOutcome::Failed(tried) => reasons(tried),
    }
}

fn with_note(route: &HostRoute, notes: &mut Vec<String>) -> String {
    match &route.outcome {
        RouteOutcome::Reached { .. } => inline(route),
        RouteOutcome::Failed(_) => failed(route, notes),
    }
}

/// A failed cell that points to its reasons; pairs with the same reasons share a note.
fn failed(route: &HostRoute, notes: &mut Vec<String>) -> String {
    let text = inline(route);
    let known = notes.iter().position(|note| *note == text);
    let number = known.unwrap_or_else(|| {
        notes.push(text);
        notes.len() - 1
    });
    format!("no ({})", number + 1)
}

fn reasons(tried: &[(IpAddr, String)]) -> String {
    if tried.is_empty() {
        return "no address to try".to_owned();
    }
    let reason = |(address, reason): &(IpAddr, String)| format!("{address} {}", one_line(reason));
    tried.iter().map(reason).collect::<Vec<_>>().join(", ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn legend_of_notes(notes: &[String]) -> String {
    let note = |(index, note): (usize, &String)| wrap(&format!("({}) {note}", index + 1), 4);
    notes.iter().enumerate().map(note).collect()
}

fn fits(text: &str) -> bool {
    text.lines().all(|line| line.chars().count() <= WIDTH)
}

/// Columns as wide as their widest cell, two blanks apart.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let length = |cell: &String| cell.chars().count();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .map(|row| length(&row[column]))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A round trip in at most seven characters.
fn time(round_trip: Duration) -> String {
    let milliseconds = round_trip.as_secs_f64() * 1e3;
    if milliseconds < 9.995 {
        format!("{milliseconds:.2} ms")
    } else if milliseconds < 999.5 {
        format!("{milliseconds:.0} ms")
    } else {
        format!("{:.0} s", round_trip.as_secs_f64())
    }
}

/// The beginning of a name that is too long, marked as such.
fn cut(name: &str, limit: usize) -> String {
    if name.chars().count() <= limit {
        return name.to_owned();
    }
    name.chars().take(limit - 2).chain("..".chars()).collect()
}

/// Breaks a sentence at blanks, but not inside backticks, so that a command can be copied; what is
/// longer than a line is broken anywhere. Further lines are indented.
pub(super) fn wrap(text: &str, indent: usize) -> String {
    let next_line = format!("\n{}", " ".repeat(indent));
    let mut wrapped = String::new();
    let mut column = 0;
    for word in words(text) {
        if column > 0 && column + 1 + word.chars().count() > WIDTH {
            wrapped += &next_line;
            column = indent;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        for letter in word.chars() {
            if column == WIDTH {
                wrapped += &next_line;
                column = indent;
            }
            wrapped.push(letter);
            column += 1;
        }
    }
    wrapped + "\n"
}
