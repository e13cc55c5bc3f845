//! The report of `horovodrun doctor`: what each host is, how pairs of hosts reach each other, what
//! is wrong. Pure: turns a [`DoctorReport`] into text, JSON and an exit status; who asked the hosts, and
//! how, is not known here.
//!
//! The JSON is the report as it stands, so its field names are what scripts rely on: times are in
//! seconds, sizes in bytes, rates in bytes per second.

mod hosts;
mod pairs;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    driver::{HostFinding, Severity},
    hosts::{
        facts::{Extra, HostFacts},
        probe::ProbeFailure,
    },
    text::{harmless, wrap},
};

/// Widest line of the text.
const WIDTH: usize = 100;

/// Before lines that belong to the one above.
const MARGIN: &str = "  ";

/// Everything the doctor found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DoctorReport {
    /// The driver's own version of horovod.
    pub(crate) version: String,
    pub(crate) hosts: Vec<HostReport>,
    /// Ordered pairs: `a` reaching `b` is not `b` reaching `a`.
    pub(crate) pairs: Vec<PairReport>,
    /// Likely causes of pairs that are cut off, each with what to do.
    pub(crate) causes: Vec<String>,
    pub(crate) findings: Vec<HostFinding>,
}

/// One host of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostReport {
    /// Its name in the host list.
    pub(crate) name: String,
    pub(crate) slots: u32,
    /// Why it was not reached; `None` if it was.
    pub(crate) unreachable: Option<String>,
    /// From the start of ssh to the first word of the other side; `None` for the driver's machine.
    pub(crate) ssh_seconds: Option<f64>,
    /// How far its clock is ahead of the driver's.
    pub(crate) clock_offset_seconds: Option<f64>,
    pub(crate) facts: Option<HostFacts>,
    pub(crate) extra: Option<Extra>,
}

/// How one host reaches another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PairReport {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The address that is used, or the best of those that failed.
    pub(crate) address: Option<IpAddr>,
    pub(crate) round_trip_seconds: Option<f64>,
    pub(crate) bytes_per_second: Option<f64>,
    /// Why that address does not work; `None` if it does.
    pub(crate) failure: Option<ProbeFailure>,
}

/// Whether the text is for a terminal that shows colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    Without,
    With,
}

/// 0 if a job can run on these hosts, whatever else there is to say; else 1.
pub(crate) fn exit_status(report: &DoctorReport) -> i32 {
    let is_fatal = |finding: &HostFinding| finding.severity == Severity::Fatal;
    let is_lost = |host: &HostReport| host.unreachable.is_some();
    let is_cut = |pair: &PairReport| pair.failure.is_some();
    let broken = report.findings.iter().any(is_fatal)
        || report.hosts.iter().any(is_lost)
        || report.pairs.iter().any(is_cut);
    i32::from(broken)
}

/// The report for programs.
pub(crate) fn json(report: &DoctorReport) -> serde_json::Result<String> {
    serde_json::to_string_pretty(report).map(|text| text + "\n")
}

/// The report for people, in lines of at most 100 letters.
pub(crate) fn human(report: &DoctorReport, colours: Colours) -> String {
    let pen = Pen { colours };
    let mut lines = vec![headline(report)];
    for section in hosts::sections(&report.hosts) {
        lines.push(String::new());
        lines.extend(pen.table(section));
    }
    lines.extend(unreached(&report.hosts, pen));
    lines.extend(pairs::section(&report.pairs, pen));
    lines.extend(causes(&report.causes));
    lines.extend(findings(&report.findings, pen));
    lines.push(String::new());
    lines.push(summary(report, pen));
    lines.join("\n") + "\n"
}

fn headline(report: &DoctorReport) -> String {
    let slots: u32 = report.hosts.iter().map(|host| host.slots).sum();
    format!(
        "horovod {}, {}, {}",
        harmless(&report.version),
        counted(report.hosts.len(), "host"),
        counted(slots as usize, "slot")
    )
}

fn unreached(hosts: &[HostReport], pen: Pen) -> Vec<String> {
    let mut lines = Vec::new();
    for host in hosts {
        let Some(why) = &host.unreachable else {
            continue;
        };
        lines.push(String::new());
        let title = format!("{} was not reached:", harmless(&host.name));
        lines.push(pen.paint(RED, &title));
        lines.extend(why.lines().flat_map(explanation));
    }
    lines
}

fn causes(causes: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for cause in causes {
        lines.push(String::new());
        lines.push("likely cause:".to_owned());
        lines.extend(prose(cause));
    }
    lines
}

fn findings(findings: &[HostFinding], pen: Pen) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in findings {
        let (colour, severity) = match finding.severity {
            Severity::Fatal => (RED, "fatal"),
            Severity::Warning => (YELLOW, "warning"),
            Severity::Note => (CYAN, "note"),
        };
        lines.push(String::new());
        let sentence = format!("{severity}: {}: {}", finding.host, finding.what);
        let mut sentence = wrap(&harmless(&sentence), WIDTH).into_iter();
        if let Some(first) = sentence.next() {
            let rest = first.strip_prefix(severity).unwrap_or_default();
            lines.push(format!("{}{rest}", pen.paint(colour, severity)));
        }
        lines.extend(sentence.map(|line| format!("{MARGIN}{line}")));
        lines.extend(remedy(&finding.remedy));
    }
    lines
}

fn summary(report: &DoctorReport, pen: Pen) -> String {
    let count = |severity| {
        let findings = report.findings.iter();
        findings.filter(|one| one.severity == severity).count()
    };
    let lost = report
        .hosts
        .iter()
        .filter(|host| host.unreachable.is_some());
    let cut = report.pairs.iter().filter(|pair| pair.failure.is_some());
    let parts = [
        (lost.count(), "host not reached", "hosts not reached"),
        (cut.count(), "pair cut off", "pairs cut off"),
        (count(Severity::Fatal), "fatal finding", "fatal findings"),
        (count(Severity::Warning), "warning", "warnings"),
        (count(Severity::Note), "note", "notes"),
    ];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|&(number, ..)| number > 0)
        .map(|(number, one, many)| format!("{number} {}", if number == 1 { one } else { many }))
        .collect();
    if exit_status(report) != 0 {
        return pen.paint(RED, &format!("not ready: {}", said.join(", ")));
    }
    let ready = if said.is_empty() {
        "ready: nothing to complain of".to_owned()
    } else {
        format!("ready: {}", said.join(", "))
    };
    pen.paint(GREEN, &ready)
}

fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// One line of an explanation; one that is set in is a command, which stays in one piece however
/// long it is, so that it can be copied.
fn explanation(line: &str) -> Vec<String> {
    if line.starts_with(' ') {
        return vec![format!("{MARGIN}{}", harmless(line.trim_end()))];
    }
    prose(line)
}

/// A remedy; if it needs several lines, what follows its last colon is a command and has one.
fn remedy(text: &str) -> Vec<String> {
    let fits = text.chars().count() + MARGIN.len() <= WIDTH;
    match text.rsplit_once(": ") {
        Some((words, command)) if !fits => {
            let mut lines = prose(&format!("{words}:"));
            lines.push(format!("{MARGIN}{MARGIN}{}", harmless(command)));
            lines
        }
        _ => prose(text),
    }
}

fn prose(text: &str) -> Vec<String> {
    let lines = wrap(&harmless(text), WIDTH - MARGIN.len()).into_iter();
    lines.map(|line| format!("{MARGIN}{line}")).collect()
}

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";
const BOLD: &str = "1";

/// Writes in colours, or not.
#[derive(Debug, Clone, Copy)]
struct Pen {
    colours: Colours,
}

impl Pen {
    fn paint(self, code: &str, text: &str) -> String {
        match self.colours {
            Colours::Without => text.to_owned(),
            Colours::With => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    /// A table's lines with its headings set off.
    fn table(self, mut lines: Vec<String>) -> Vec<String> {
        if let Some(headings) = lines.first_mut() {
            *headings = self.paint(BOLD, headings);
        }
        lines
    }
}

#[cfg(test)]
mod tests;
