//! The tables of hosts: three of them, one line per host each, so that eight hosts fit on a screen.

use super::{HostReport, WIDTH};
use crate::{
    hosts::facts::{Content, DiskSpace, Extra, HostFacts},
    text::{self, TextTable},
};

const PACKAGES: [&str; 6] = ["torch", "tensorflow", "keras", "mxnet", "jax", "numpy"];

/// Stands for what is not there or not known.
const ABSENT: &str = "-";

/// The lines of each table that has something to show.
pub(super) fn sections(hosts: &[HostReport]) -> Vec<Vec<String>> {
    let tables = [machines(hosts), software(hosts), limits(hosts)];
    let tables = tables.into_iter().filter(|table| !table.is_empty());
    tables.map(|table| table.lines(WIDTH)).collect()
}

fn machines(hosts: &[HostReport]) -> TextTable {
    let mut table = TextTable::new(&[
        "host",
        "slots",
        "ssh",
        "clock",
        "cpus",
        "memory",
        "/dev/shm",
        "gpus",
        "container",
        "cpu",
    ]);
    for host in hosts {
        let mut cells = vec![host.name.clone(), host.slots.to_string(), ssh(host)];
        if let Some(facts) = &host.facts {
            cells.push(clock(host.clock_offset_seconds));
            cells.extend(machine(facts, host.extra.as_ref()));
        }
        table.row(cells);
    }
    table
}

fn ssh(host: &HostReport) -> String {
    match (&host.unreachable, host.ssh_seconds) {
        (Some(_), _) => "not reached".to_owned(),
        (None, Some(seconds)) => text::seconds(seconds),
        (None, None) => "local".to_owned(),
    }
}

/// A difference within the round trip of an answer counts as none.
fn clock(offset: Option<f64>) -> String {
    match offset {
        None => ABSENT.to_owned(),
        Some(offset) if offset.abs() < 0.05 => "ok".to_owned(),
        Some(offset) if offset < 0.0 => text::seconds(offset),
        Some(offset) => format!("+{}", text::seconds(offset)),
    }
}

fn machine(facts: &HostFacts, extra: Option<&Extra>) -> Vec<String> {
    let memory = facts.memory.map(|memory| text::bytes(memory.total));
    let shared = facts.shared_memory.map(|space| text::bytes(space.size));
    vec![
        facts.cpus.to_string(),
        memory.unwrap_or_else(absent),
        shared.unwrap_or_else(absent),
        extra.map_or_else(absent, |extra| gpus(&extra.gpus)),
        facts.container.name().to_owned(),
        facts.cpu_model.clone().unwrap_or_default(),
    ]
}

/// `8 x Name` if all are of one kind.
fn gpus(names: &[String]) -> String {
    let Some(first) = names.first() else {
        return "none".to_owned();
    };
    let kind = if names.iter().all(|name| name == first) {
        first
    } else {
        "several kinds"
    };
    format!("{} x {kind}", names.len())
}

fn software(hosts: &[HostReport]) -> TextTable {
    let installed = |package: &&str| {
        let mut extras = hosts.iter().filter_map(|host| host.extra.as_ref());
        extras.any(|extra| extra.packages.contains_key(*package))
    };
    let packages: Vec<&str> = PACKAGES.into_iter().filter(installed).collect();
    let mut headings = vec!["host", "horovod", "python"];
    headings.extend(&packages);
    headings.extend(["script", "mpi", "interpreter"]);
    let mut table = TextTable::new(&headings);
    for host in hosts {
        let Some(facts) = &host.facts else {
            continue;
        };
        let extra = host.extra.clone().unwrap_or_default();
        let interpreter = extra.interpreter.as_ref();
        let mut cells = vec![host.name.clone(), facts.version.clone()];
        cells.push(interpreter.map_or_else(absent, |one| one.version.clone()));
        let version = |package: &&str| extra.packages.get(*package).cloned();
        cells.extend(
            packages
                .iter()
                .map(|one| version(one).unwrap_or_else(absent)),
        );
        cells.push(script(facts));
        cells.push(extra.mpi.as_deref().map_or_else(absent, short_mpi));
        cells.push(interpreter.map(|one| one.path.clone()).unwrap_or_default());
        table.row(cells);
    }
    table
}

/// `mpirun (Open MPI) 4.1.4` as `Open MPI 4.1.4`.
fn short_mpi(line: &str) -> String {
    let line = line.strip_prefix("mpirun ").unwrap_or(line);
    line.replace(['(', ')'], "")
}

/// A column of scripts is shown only if the command has one.
fn script(facts: &HostFacts) -> String {
    match facts.script.as_ref().map(|script| &script.content) {
        None => String::new(),
        Some(Content::Missing) => "missing".to_owned(),
        Some(Content::Sha256(hash)) => hash.chars().take(8).collect(),
        Some(Content::Unhashed) => "present".to_owned(),
        Some(Content::Unreadable(_)) => "unreadable".to_owned(),
    }
}

fn limits(hosts: &[HostReport]) -> TextTable {
    let mut table = TextTable::new(&[
        "host",
        "name",
        "user",
        "open files",
        "locked",
        "disk free",
        "tmp free",
        "kernel",
    ]);
    for host in hosts {
        let Some(facts) = &host.facts else {
            continue;
        };
        let limits = facts.limits;
        let unlimited = || "unlimited".to_owned();
        let user = facts.user.clone();
        table.row([
            host.name.clone(),
            facts.hostname.clone(),
            user.unwrap_or_else(|| facts.uid.to_string()),
            limits
                .open_files
                .map_or_else(unlimited, |files| files.to_string()),
            limits.locked_memory.map_or_else(unlimited, text::bytes),
            facts.disk.map_or_else(absent, room),
            facts.temporary_disk.map_or_else(absent, room),
            facts.kernel.clone(),
        ]);
    }
    table
}

fn room(space: DiskSpace) -> String {
    if space.read_only {
        "read-only".to_owned()
    } else {
        text::bytes(space.free)
    }
}

fn absent() -> String {
    ABSENT.to_owned()
}
