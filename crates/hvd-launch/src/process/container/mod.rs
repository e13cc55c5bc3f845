//! Ranks inside a container image: the agent, or the driver for its own host, stays outside and
//! starts each rank through `apptainer exec`, `docker run` or `podman run`. One file for each family
//! composes the command line; `this_host.rs` looks at what this machine has. Composition is pure.
//!
//! - `CONTAINER-1` the working directory and the file of the job's key are at the same paths inside.
//! - `CONTAINER-2` the variables that make a process a rank arrive, whatever else is hidden.
//! - `CONTAINER-3` no value of a variable is on a command line, which other users can read.
//! - `CONTAINER-4` ranks share the network of their host, so that they reach each other, and the
//!   abstract sockets through which ranks of one host share memory.
//! - `CONTAINER-5` a container ends with the process that started it, however that ends.

mod apptainer;
mod docker;
#[cfg(test)]
mod tests;
mod this_host;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub(crate) use this_host::ContainerHost;

/// What the ranks run in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerOptions {
    /// The image: a file or directory for Apptainer, a name for Docker.
    pub image: String,
    /// What runs it.
    pub runtime: ContainerRuntime,
    /// The user's own arguments for that, in front of the image.
    pub arguments: Vec<String>,
}

/// What runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerRuntime {
    /// `apptainer`, or `singularity` where that is what a host has.
    Apptainer,
    /// `docker`.
    Docker,
    /// `podman`.
    Podman,
}

impl ContainerRuntime {
    /// The programs that do, the best first.
    pub(crate) fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Apptainer => &["apptainer", "singularity"],
            Self::Docker => &["docker"],
            Self::Podman => &["podman"],
        }
    }
}

/// One rank as it would be started without a container.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BareRank<'a> {
    pub(crate) command: &'a [String],
    pub(crate) directory: &'a Path,
    pub(crate) environment: &'a BTreeMap<OsString, OsString>,
    /// The file of the job's key.
    pub(crate) key_file: Option<&'a Path>,
    /// A name that no other container of this host has.
    pub(crate) name: &'a str,
}

/// The process that starts a rank in its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainedRank {
    pub(crate) command: Vec<String>,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// Whether its standard input has to stay open for as long as the rank may run.
    pub(crate) holds_stdin: bool,
}

/// What starts the rank inside.
pub(crate) fn contain(
    options: &ContainerOptions,
    host: &ContainerHost,
    rank: &BareRank<'_>,
) -> ContainedRank {
    match options.runtime {
        ContainerRuntime::Apptainer => apptainer::contain(options, host, rank),
        ContainerRuntime::Docker | ContainerRuntime::Podman => docker::contain(options, host, rank),
    }
}

/// The image must be there: Apptainer's own words for a missing file name no host.
pub(crate) fn check_image(options: &ContainerOptions) -> Result<()> {
    let is_file = options.runtime == ContainerRuntime::Apptainer && !options.image.contains("://");
    let path = PathBuf::from(&options.image);
    if is_file && !path.exists() {
        return Err(Error::NoImage { path });
    }
    Ok(())
}

/// The part of a command that is looked for on the host: nothing, if it runs in an image.
pub(crate) fn outside(command: &[String], container: Option<&ContainerOptions>) -> Vec<String> {
    match container {
        Some(_) => Vec::new(),
        None => command.to_vec(),
    }
}

/// Whether a variable makes a process a rank of this job.
fn is_of_rank(variable: &str) -> bool {
    ["HOROVOD_", "_HOROVOD_", "OMPI_COMM_WORLD_"]
        .iter()
        .any(|beginning| variable.starts_with(beginning))
        || variable == "PYTHONUNBUFFERED"
}

/// A path as one word of a command line.
fn word(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
