//! What this machine has for containers: the program that runs them, and GPUs to pass in. Looks at
//! `PATH` and `/dev`; starts nothing.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use super::ContainerRuntime;
use crate::error::{Error, Result};

/// What matters of a machine to the ranks in its containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerHost {
    /// The program that runs containers.
    pub(crate) program: String,
    pub(crate) has_nvidia: bool,
    pub(crate) has_amd: bool,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl ContainerHost {
    /// Looks at this machine; `path` is the `PATH` of the ranks.
    pub(crate) fn look(runtime: ContainerRuntime, path: &OsStr) -> Result<Self> {
        let mut programs = runtime.programs().iter();
        let program = programs.find_map(|program| find(program, path));
        let program = program.ok_or(Error::NoContainerRuntime {
            programs: runtime.programs(),
        })?;
        Ok(Self {
            program: program.to_string_lossy().into_owned(),
            has_nvidia: Path::new("/dev/nvidiactl").exists(),
            has_amd: Path::new("/dev/kfd").exists(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        })
    }
}

/// The first file of that name in the directories of `path`.
fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    let mut places = std::env::split_paths(path).map(|place| place.join(program));
    places.find(|file| file.is_file())
}
