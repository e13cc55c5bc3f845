//! The options of Hydra's `mpirun`: MPICH and Intel MPI. It passes the environment on by itself.

use super::{
    command::{hosts, spoken, ssh_arguments},
    environment::Variables,
    implementation::Implementation,
};
use crate::{
    error::{Error, Result},
    hosts::Host,
    spec::JobSpec,
};

/// Where MPICH's Hydra reads arguments for its `ssh`; it has no option for them.
const SSH_ARGUMENTS: &str = "HYDRA_LAUNCHER_EXTRA_ARGS";

/// Everything between `mpirun` and the user's own arguments; may add to its environment.
pub(super) fn options(
    implementation: Implementation,
    spec: &JobSpec,
    environment: &mut Variables,
) -> Result<Vec<String>> {
    let hosts = hosts(spec)?;
    let names: Vec<&str> = hosts.iter().map(|host| host.hostname()).collect();
    let (ranks, each) = (spec.placements.len(), slots_of_each(&hosts)?);
    let mut words: Vec<String> = spoken(&format!("-l -np {ranks} -ppn {each} -hosts")).collect();
    words.push(names.join(","));
    if implementation == Implementation::Mpich {
        words.extend(spoken("-bind-to none -map-by slot"));
    }
    if let Some(arguments) = ssh_arguments(&spec.remote.ssh)? {
        words.push("-bootstrap=ssh".to_owned());
        if implementation == Implementation::Intel {
            words.extend(["-bootstrap-exec-args".to_owned(), arguments]);
        } else {
            environment.insert(SSH_ARGUMENTS.into(), arguments.into());
        }
    }
    words.extend(interface(&spec.remote.interfaces)?);
    if let Some(pattern) = &spec.output.directory {
        words.extend(["-outfile-pattern".to_owned(), pattern.display().to_string()]);
    }
    Ok(words)
}

/// Hydra starts as many ranks on one host as on the next.
fn slots_of_each(hosts: &[&Host]) -> Result<u32> {
    let slots = hosts.first().map_or(0, |host| host.slots);
    if hosts.iter().all(|host| host.slots == slots) {
        return Ok(slots);
    }
    let listed: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    Err(Error::UnequalSlots {
        hosts: listed.join(","),
    })
}

fn interface(interfaces: &[String]) -> Result<Vec<String>> {
    match interfaces {
        [] => Ok(Vec::new()),
        [one] => Ok(
            ["-iface", one, "-genv", &format!("NCCL_SOCKET_IFNAME={one}")]
                .map(str::to_owned)
                .to_vec(),
        ),
        several => Err(Error::SeveralInterfaces {
            interfaces: several.to_vec(),
        }),
    }
}
