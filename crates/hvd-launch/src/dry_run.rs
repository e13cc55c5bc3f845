//! `--dry-run`: what would happen, in words, and nothing done but looking names up. Secrets are not
//! made, so there are none to be shown.

use std::{ffi::OsString, fmt::Write as _};

use hvd_types::Placement;

use crate::{
    error::{Error, Result},
    hosts::{Resolved, resolve, ssh::quote},
    process::rank_variables,
    spec::JobSpec,
};

/// The plan of a job: hosts, ranks, addresses, the exact commands and variables.
///
/// # Errors
/// When the system refuses what is needed to look names up.
pub fn describe(spec: &JobSpec) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("start the runtime"))?;
    let names: Vec<String> = spec
        .hosts
        .iter()
        .map(|host| host.hostname().to_owned())
        .collect();
    let resolved = runtime.block_on(resolve(&names))?;
    runtime.shutdown_background();
    Ok(text(spec, &resolved))
}

fn text(spec: &JobSpec, resolved: &[Resolved]) -> String {
    let command: Vec<String> = spec.command.iter().map(|word| quote(word)).collect();
    let mut text = format!(
        "command: {}\ndirectory: {}\n",
        command.join(" "),
        spec.directory.display()
    );
    if let Some(container) = &spec.container {
        let programs = container.runtime.programs().join(" or ");
        let _ = writeln!(text, "container: {} by {programs}", quote(&container.image));
    }
    if let Some(origin) = &spec.remote.allocation {
        let _ = writeln!(text, "hosts: {origin}");
    }
    for (host, resolved) in spec.hosts.iter().zip(resolved) {
        let of_host = |placement: &&Placement| placement.hostname == host.hostname();
        let placements: Vec<&Placement> = spec.placements.iter().filter(of_host).collect();
        let ranks: Vec<String> = placements
            .iter()
            .map(|placement| placement.rank.to_string())
            .collect();
        let _ = writeln!(
            text,
            "\nhost {}: {} of {} slots, ranks {}",
            host.hostname(),
            placements.len(),
            host.slots,
            if ranks.is_empty() {
                "none".to_owned()
            } else {
                ranks.join(", ")
            }
        );
        if placements.is_empty() {
            continue;
        }
        let _ = writeln!(text, "  {}", way(spec, resolved));
        if !resolved.is_local {
            let words = spec
                .remote
                .agent_command(&host.name, &spec.remote.interpreter);
            let _ = writeln!(text, "  agent: {}", line(&words));
        }
        for placement in placements {
            let _ = writeln!(text, "  rank {}:", placement.rank);
            for (name, value) in rank_variables(placement, &spec.exports) {
                let _ = writeln!(text, "    {name}={}", quote(&value));
            }
        }
    }
    text.push_str(AFTERWARDS);
    text
}

const AFTERWARDS: &str = "
Decided at the start: the store's address and port, the file with the job's key, and
for several hosts HOROVOD_HOST_ADDRESSES. The environment of this command goes to every
rank as well. `horovodrun doctor` tries the hosts and the ways between them.
";

fn way(spec: &JobSpec, resolved: &Resolved) -> String {
    if resolved.is_local {
        return "this machine".to_owned();
    }
    let addresses: Vec<String> = resolved.addresses.iter().map(ToString::to_string).collect();
    if addresses.is_empty() {
        format!(
            "addresses: the name is unknown here; {} may know it",
            spec.remote.starter.program()
        )
    } else {
        format!("addresses: {}", addresses.join(", "))
    }
}

fn line(words: &[OsString]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| quote(&word.to_string_lossy()))
        .collect();
    words.join(" ")
}
