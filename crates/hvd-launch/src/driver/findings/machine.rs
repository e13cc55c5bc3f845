//! The machine itself: is it one of its own, is there room, is its clock right.

use super::{HostAnswer, HostFinding, JobFacts, Severity};
use crate::{
    hosts::facts::{Container, DiskSpace},
    text,
};

/// Seconds a clock may be off. Less than this harms nothing and needs no time server.
const CLOCK: f64 = 2.0;

/// Seconds from which certificates and tickets fail.
const CLOCK_FAR: f64 = 300.0;

/// A file system with less room is full.
const FULL: u64 = 1024 * 1024;

/// What a rank wants of `/dev/shm`: its share of the segment between the ranks of a host, and that
/// of a few data loaders.
const SHARED: u64 = 64 * 1024 * 1024;

/// Files a rank opens besides its connections: libraries, data, logs.
const FILES: u64 = 128;

/// Connections between two ranks, at most: control, data, lifeline.
const CONNECTIONS: u64 = 3;

/// Hosts that are one machine by two names; each is named once, after the first of its names.
pub(super) fn twins(hosts: &[HostAnswer<'_>]) -> Vec<HostFinding> {
    let mut found = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let same = |other: &&HostAnswer<'_>| {
            !host.facts.identity.is_empty() && other.facts.identity == host.facts.identity
        };
        let Some(first) = hosts[..at].iter().find(same) else {
            continue;
        };
        if first.name == host.name {
            continue;
        }
        let slots: u32 = hosts.iter().filter(same).map(|host| host.slots).sum();
        found.push(host.finding(
            Severity::Fatal,
            format!(
                "`{}` and `{}` are one machine, {}",
                first.name, host.name, host.facts.hostname
            ),
            format!("list it once with all its slots: {}:{slots}", first.name),
        ));
    }
    found
}

pub(super) fn judge(host: &HostAnswer<'_>, job: &JobFacts<'_>) -> Vec<HostFinding> {
    let found = [
        clock(host),
        temporary(host),
        disk(host, job),
        open_files(host, job),
        shared_memory(host),
        processors(host),
    ];
    found.into_iter().flatten().collect()
}

fn clock(host: &HostAnswer<'_>) -> Option<HostFinding> {
    let offset = host.clock_offset()?;
    if offset.abs() <= CLOCK {
        return None;
    }
    let side = if offset > 0.0 { "ahead of" } else { "behind" };
    let mut what = format!(
        "the clock there is {} {side} the one here",
        text::seconds(offset.abs())
    );
    if offset.abs() > CLOCK_FAR {
        what.push_str("; TLS certificates and ssh or Kerberos logins fail when it is that far off");
    } else {
        what.push_str("; times in logs and of files will not match");
    }
    let remedy = format!(
        "keep both clocks right with chrony or ntp; on {}: chronyc makestep",
        host.name
    );
    Some(host.finding(Severity::Warning, what, remedy))
}

/// Fatal: the job's key is a file below it. A read-only root file system is meant to be one, and
/// then the key is in `/dev/shm`.
fn temporary(host: &HostAnswer<'_>) -> Option<HostFinding> {
    let path = &host.facts.temporary;
    let remedy = format!("make room on {}, or set TMPDIR to another place", host.name);
    let Some(space) = host.facts.temporary_disk else {
        let what = format!("the directory `{path}` for temporary files does not exist there");
        return Some(host.finding(Severity::Fatal, what, remedy));
    };
    if space.read_only {
        return Some(read_only_temporary(host));
    }
    let problem = full(space)?;
    let what = format!("`{path}`, the place for temporary files, {problem} there");
    Some(host.finding(Severity::Fatal, what, remedy))
}

fn read_only_temporary(host: &HostAnswer<'_>) -> HostFinding {
    let path = &host.facts.temporary;
    let is_usable = |space: DiskSpace| !space.read_only && full(space).is_none();
    let severity = if host.facts.shared_memory.is_some_and(is_usable) {
        Severity::Warning
    } else {
        Severity::Fatal
    };
    let remedy = match host.facts.container {
        Container::Docker | Container::Podman => {
            format!("start the container with --tmpfs {path}")
        }
        _ => format!("on {}: mount -t tmpfs tmpfs {path}", host.name),
    };
    let what = format!("`{path}`, the place for temporary files, is read-only there");
    host.finding(severity, what, remedy)
}

/// A warning: whether the job writes into its directory is its own affair.
fn disk(host: &HostAnswer<'_>, job: &JobFacts<'_>) -> Option<HostFinding> {
    let space = host.facts.disk.filter(|space| !space.read_only)?;
    let what = format!("the disk of `{}` {} there", job.directory, full(space)?);
    let remedy = format!(
        "make room on {}, or checkpoints and logs may be lost",
        host.name
    );
    Some(host.finding(Severity::Warning, what, remedy))
}

fn full(space: DiskSpace) -> Option<String> {
    if space.free < FULL {
        return Some(format!(
            "is full ({} free of {})",
            text::bytes(space.free),
            text::bytes(space.size)
        ));
    }
    (space.free_files == Some(0)).then(|| "can hold no more files (no free inodes)".to_owned())
}

fn open_files(host: &HostAnswer<'_>, job: &JobFacts<'_>) -> Option<HostFinding> {
    let limits = host.facts.limits;
    let soft = limits.open_files?;
    let needed = FILES + CONNECTIONS * u64::from(job.ranks);
    if soft >= needed {
        return None;
    }
    let what = format!(
        "a rank may have {soft} files open there and may need {needed} for {} ranks",
        job.ranks
    );
    let may_raise = limits.open_files_most.is_none_or(|most| most >= needed);
    let remedy = match host.facts.container {
        Container::Docker | Container::Podman => format!(
            "start the container with --ulimit nofile={}",
            needed.max(65_536)
        ),
        _ if may_raise => format!(
            "put `ulimit -n {needed}` into the shell's start file on {}",
            host.name
        ),
        _ => format!(
            "raise `nofile` in /etc/security/limits.conf on {} and log in again",
            host.name
        ),
    };
    Some(host.finding(Severity::Warning, what, remedy))
}

fn shared_memory(host: &HostAnswer<'_>) -> Option<HostFinding> {
    let space = host.facts.shared_memory?;
    let wanted = SHARED * u64::from(host.slots);
    if space.free >= wanted {
        return None;
    }
    let what = format!(
        "/dev/shm has {} free of {} there; {} ranks and their data loaders may want {}",
        text::bytes(space.free),
        text::bytes(space.size),
        host.slots,
        text::bytes(wanted)
    );
    let gigabytes = (wanted >> 30) + 1;
    let remedy = match host.facts.container {
        Container::Docker | Container::Podman => {
            format!("start the container with --shm-size={gigabytes}g, or with --ipc=host")
        }
        Container::Kubernetes => {
            "mount an emptyDir with `medium: Memory` at /dev/shm in the pod".to_owned()
        }
        Container::Singularity | Container::None => format!(
            "remove what is left there, or on {}: mount -o remount,size={gigabytes}g /dev/shm",
            host.name
        ),
    };
    Some(host.finding(Severity::Note, what, remedy))
}

fn processors(host: &HostAnswer<'_>) -> Option<HostFinding> {
    let cpus = host.facts.cpus;
    let has_fewer = u32::try_from(cpus).is_ok_and(|cpus| cpus < host.slots);
    let plural = if cpus == 1 { "" } else { "s" };
    has_fewer.then(|| {
        host.finding(
            Severity::Note,
            format!("{} ranks share {cpus} CPU{plural} there", host.slots),
            format!(
                "{}:{cpus} may be as fast, and with steadier times",
                host.name
            ),
        )
    })
}
