//! What is wrong with the hosts of a job, judged from what they say about themselves. Pure: takes
//! facts, returns findings, each with the step that mends it.
//!
//! Fatal is what would make ranks fail or compute something else on that host; a warning is what
//! probably will; a note is what may be slower than it could.

mod files;
mod machine;
mod software;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hosts::{
    facts::{Extra, HostFacts},
    ssh::run_there,
};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// The job cannot run like this.
    Fatal,
    /// The job may fail or go wrong.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something that is wrong with a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostFinding {
    pub(crate) severity: Severity,
    /// The host's name as in the host list.
    pub(crate) host: String,
    pub(crate) what: String,
    /// What to do about it, with the command where there is one.
    pub(crate) remedy: String,
}

/// A host of the job and what it answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostAnswer<'a> {
    /// The host's name as in the host list.
    pub(crate) name: &'a str,
    /// How many ranks it takes.
    pub(crate) slots: u32,
    pub(crate) facts: &'a HostFacts,
    pub(crate) extra: Option<&'a Extra>,
    /// What a person types to get there, port, key and user included; none if not by ssh.
    pub(crate) ssh: Option<&'a str>,
    /// When the answer came; without it the clock is not judged.
    pub(crate) timing: Option<AnswerTiming>,
}

/// When an answer came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AnswerTiming {
    /// The driver's clock at that moment, see [`crate::hosts::facts::now`].
    pub(crate) clock: f64,
    /// Since it was asked for.
    pub(crate) round_trip: Duration,
}

impl HostAnswer<'_> {
    /// The command line, or the place and the command line, that runs a line of shell there.
    fn typed(&self, line: &str) -> String {
        match self.ssh {
            Some(ssh) => run_there(ssh, line),
            None => format!("on {}: {line}", self.name),
        }
    }

    /// How far the host's clock is ahead of the driver's, in seconds; negative if it is behind.
    /// The answer was given at some moment of the round trip, and is given the benefit of that.
    pub(crate) fn clock_offset(&self) -> Option<f64> {
        let AnswerTiming { clock, round_trip } = self.timing?;
        let doubt = round_trip.as_secs_f64() / 2.0;
        let offset = self.facts.clock - (clock - doubt);
        let certain = (offset.abs() - doubt).max(0.0);
        Some(certain.copysign(offset))
    }

    fn finding(
        &self,
        severity: Severity,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> HostFinding {
        HostFinding {
            severity,
            host: self.name.to_owned(),
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// The job that the hosts shall run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobFacts<'a> {
    /// All its ranks.
    pub(crate) ranks: u32,
    /// The directory the ranks start in.
    pub(crate) directory: &'a str,
    /// The wheel that the driver's Horovod was installed from, if that was looked up.
    pub(crate) wheel: Option<&'a str>,
}

/// Everything that is wrong, worst first, else in the order of hosts.
pub(crate) fn compare(
    driver: &HostFacts,
    hosts: &[HostAnswer<'_>],
    job: &JobFacts<'_>,
) -> Vec<HostFinding> {
    let mut found = machine::twins(hosts);
    for host in hosts {
        found.extend(software::version(driver, host, job));
        found.extend(files::judge(driver, hosts, host, job));
        found.extend(machine::judge(host, job));
        found.extend(software::packages(driver, hosts, host, job));
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

#[cfg(test)]
pub(crate) mod tests;
