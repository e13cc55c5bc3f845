//! What the environment says about MPI: whether it moves tensors, which library it is, and what
//! launcher started this process. Opens nothing.

use std::path::PathBuf;

use crate::environment::malformed;
use crate::setting::name;
use crate::{Environment, Error, Result};

/// How to find and initialize MPI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MpiConfig {
    /// The library that the user names.
    pub library: Option<PathBuf>,
    /// Whether MPI is to allow calls from several threads at once.
    pub threads: MpiThreads,
    /// What started this process, if it was an MPI launcher.
    pub launcher: Option<LauncherFamily>,
    /// Where MPI libraries are, as the launcher says.
    pub library_directories: Vec<PathBuf>,
    /// Where MPI is installed, as the launcher or the user says.
    pub prefixes: Vec<PathBuf>,
}

/// Whether MPI is to allow calls from several threads at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum MpiThreads {
    #[default]
    Enabled,
    Disabled,
}

/// A family of launchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LauncherFamily {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// Hydra, of MPICH and Intel MPI, or another with PMI.
    Pmi,
    /// Another with PMIx, such as `srun`.
    Pmix,
}

impl MpiConfig {
    /// How to find MPI, if it is to move tensors.
    pub fn read(environment: &Environment) -> Result<Option<Self>> {
        match environment
            .text(name::CPU_OPERATIONS)
            .map(normal)
            .as_deref()
        {
            None | Some("gloo") => return Ok(None),
            Some("mpi") => {}
            Some("ccl") => {
                return Err(Error::NotInThisBuild {
                    variable: name::CPU_OPERATIONS,
                    value: "ccl".to_owned(),
                    instead: "gloo",
                });
            }
            Some(other) => return Err(malformed(name::CPU_OPERATIONS, other)),
        }
        let paths = |variables: &[&str]| {
            let paths = variables.iter().filter_map(|name| environment.path(name));
            paths.collect()
        };
        Ok(Some(Self {
            library: environment.path(name::MPI_LIBRARY),
            threads: if environment.flag(name::MPI_THREADS_DISABLE)? {
                MpiThreads::Disabled
            } else {
                MpiThreads::Enabled
            },
            launcher: LauncherFamily::of(environment),
            library_directories: paths(&["OMPI_LIBDIR_LOC"]),
            prefixes: paths(&["OPAL_PREFIX", "I_MPI_ROOT", "MPI_ROOT", "MPI_HOME"]),
        }))
    }
}

impl LauncherFamily {
    /// The launcher that started this process.
    fn of(environment: &Environment) -> Option<Self> {
        let has = |variable: &str| environment.text(variable).is_some();
        // `horovodrun` sets variables of Open MPI too, for the sake of scripts, but none of PMIx.
        if has("PMIX_RANK") {
            let is_open_mpi = has("OMPI_COMM_WORLD_SIZE");
            return Some(if is_open_mpi {
                Self::OpenMpi
            } else {
                Self::Pmix
            });
        }
        let is_pmi = ["PMI_RANK", "PMI_ID", "PMI_FD"].into_iter().any(has);
        is_pmi.then_some(Self::Pmi)
    }
}

/// Whether `HOROVOD_CONTROLLER` says `mpi`: then an MPI launcher started the ranks. Control messages
/// travel on Horovod's own connections all the same.
pub(super) fn is_controller(environment: &Environment) -> Result<bool> {
    match environment.text(name::CONTROLLER).map(normal).as_deref() {
        None | Some("gloo") => Ok(false),
        Some("mpi") => Ok(true),
        Some(other) => Err(malformed(name::CONTROLLER, other)),
    }
}

fn normal(text: &str) -> String {
    text.trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<MpiConfig>> {
        MpiConfig::read(&pairs.iter().copied().collect())
    }

    #[test]
    fn mpi_is_used_if_asked_for() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("HOROVOD_CPU_OPERATIONS", "Gloo")]), Ok(None));
        let config = read(&[
            ("HOROVOD_CPU_OPERATIONS", "MPI"),
            ("HOROVOD_MPI_LIBRARY", "/opt/libmpi.so"),
            ("HOROVOD_MPI_THREADS_DISABLE", "1"),
            ("OMPI_LIBDIR_LOC", "/opt/lib"),
            ("I_MPI_ROOT", "/opt/intel"),
        ]);
        let expected = MpiConfig {
            library: Some("/opt/libmpi.so".into()),
            threads: MpiThreads::Disabled,
            launcher: None,
            library_directories: vec!["/opt/lib".into()],
            prefixes: vec!["/opt/intel".into()],
        };
        assert_eq!(config, Ok(Some(expected)));
    }

    #[test]
    fn launchers_are_told_apart() {
        for (variable, launcher) in [
            ("OMPI_COMM_WORLD_SIZE", None),
            ("PMI_RANK", Some(LauncherFamily::Pmi)),
            ("PMI_ID", Some(LauncherFamily::Pmi)),
            ("PMIX_RANK", Some(LauncherFamily::Pmix)),
            ("HOROVOD_RANK", None),
        ] {
            let config = read(&[("HOROVOD_CPU_OPERATIONS", "mpi"), (variable, "1")]);
            assert_eq!(config.unwrap().unwrap().launcher, launcher, "{variable}");
        }
        let both = [
            ("HOROVOD_CPU_OPERATIONS", "mpi"),
            ("PMIX_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
        ];
        let launcher = read(&both).unwrap().unwrap().launcher;
        assert_eq!(launcher, Some(LauncherFamily::OpenMpi));
    }
}
