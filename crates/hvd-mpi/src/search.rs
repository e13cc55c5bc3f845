//! Which libraries may be the MPI of this job, in the order in which they are tried: the one that
//! the user names; one that the process has loaded, as mpi4py does; the launcher's own; those that
//! the loader finds, the launcher's family first. Opens nothing.

use std::fs;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use hvd_config::{LauncherFamily, MpiConfig};

/// A library to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LibraryCandidate {
    /// A path, or a name for the loader.
    pub(crate) name: String,
    /// Whether it counts only if the process has loaded it already.
    pub(crate) must_be_loaded: bool,
}

const OPEN_MPI: &[&str] = &["libmpi.so.40"];
/// Debian's MPICH has a name of its own.
const MPICH: &[&str] = &["libmpi.so.12", "libmpich.so.12"];
const STANDARD: &[&str] = &["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];
/// Which library these are links to is up to the system's administrator.
const UNVERSIONED: &[&str] = &["libmpi.so", "libmpich.so"];

/// Programs of launchers, which lie beside their library.
const LAUNCHERS: &[&str] = &[
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "mpirun.openmpi",
    "orterun",
    "orted",
    "prterun",
    "prte",
    "prted",
    "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
];

/// How many processes may stand between a launcher and this one: shells and containers.
const MOST_ANCESTORS: usize = 6;

/// All candidates. With a library named by the user there is no other.
pub(crate) fn candidates(config: &MpiConfig) -> Vec<LibraryCandidate> {
    if let Some(library) = &config.library {
        return vec![openable(library.to_string_lossy().into_owned())];
    }
    let names = names(config.launcher);
    let mut found: Vec<LibraryCandidate> = loaded().into_iter().map(only_loaded).collect();
    let prefixes = config.prefixes.iter().cloned().chain(launcher_prefixes());
    let directories = config.library_directories.iter().cloned().chain(
        prefixes.flat_map(|prefix| ["lib", "lib64", "lib/release"].map(|at| prefix.join(at))),
    );
    for directory in directories {
        let paths = names.iter().map(|name| directory.join(name));
        let files = paths.filter(|path| path.is_file());
        found.extend(files.map(|path| openable(path.to_string_lossy().into_owned())));
    }
    found.extend(names.iter().map(|name| openable((*name).to_owned())));
    let mut distinct: Vec<LibraryCandidate> = Vec::with_capacity(found.len());
    for candidate in found {
        if !distinct.contains(&candidate) {
            distinct.push(candidate);
        }
    }
    distinct
}

fn openable(name: String) -> LibraryCandidate {
    LibraryCandidate {
        name,
        must_be_loaded: false,
    }
}

fn only_loaded(name: String) -> LibraryCandidate {
    LibraryCandidate {
        name,
        must_be_loaded: true,
    }
}

/// Names for the loader, those of the launcher's family first: another family's library would
/// initialize, but each process would be alone.
fn names(launcher: Option<LauncherFamily>) -> Vec<&'static str> {
    let families = match launcher {
        Some(LauncherFamily::OpenMpi | LauncherFamily::Pmix) | None => [OPEN_MPI, STANDARD, MPICH],
        Some(LauncherFamily::Pmi) => [MPICH, STANDARD, OPEN_MPI],
    };
    families
        .into_iter()
        .chain([UNVERSIONED])
        .flatten()
        .copied()
        .collect()
}

/// Paths of the MPI libraries that this process has loaded.
fn loaded() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths = Vec::new();
    for path in maps.lines().filter_map(mapped_library) {
        if !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// The library in a line of `/proc/self/maps`, if it is one of MPI's.
fn mapped_library(line: &str) -> Option<&str> {
    let path = &line[line.find('/')?..];
    let name = path.rsplit('/').next()?;
    let stem = name.split(".so").next()?;
    let is_mpi = matches!(stem, "libmpi" | "libmpich" | "libmpi_abi");
    (is_mpi && name.contains(".so")).then_some(path)
}

/// Where the launchers among this process's ancestors are installed.
fn launcher_prefixes() -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    let mut process = parent_id();
    for _ in 0..MOST_ANCESTORS {
        if process <= 1 {
            break;
        }
        let program = fs::read_link(format!("/proc/{process}/exe")).ok();
        prefixes.extend(program.as_deref().and_then(prefix_of_launcher));
        let Some(parent) = parent_of(process) else {
            break;
        };
        process = parent;
    }
    prefixes
}

/// `/opt/mpi` for `/opt/mpi/bin/mpirun`.
fn prefix_of_launcher(program: &Path) -> Option<PathBuf> {
    let name = program.file_name()?.to_str()?;
    let is_launcher = LAUNCHERS.contains(&name);
    let prefix = program.parent()?.parent()?;
    is_launcher.then(|| prefix.to_owned())
}

fn parent_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(config: &MpiConfig, wanted: &[&str]) -> Vec<Option<usize>> {
        let candidates = candidates(config);
        let position = |name: &&str| candidates.iter().position(|at| at.name == *name);
        wanted.iter().map(position).collect()
    }

    #[test]
    fn a_named_library_is_the_only_one() {
        let config = MpiConfig {
            library: Some("/opt/libmpi.so".into()),
            launcher: Some(LauncherFamily::OpenMpi),
            ..MpiConfig::default()
        };
        assert_eq!(candidates(&config), [openable("/opt/libmpi.so".to_owned())]);
    }

    #[test]
    fn the_launchers_family_comes_first() {
        for (launcher, first, last) in [
            (LauncherFamily::OpenMpi, "libmpi.so.40", "libmpich.so.12"),
            (LauncherFamily::Pmi, "libmpich.so.12", "libmpi.so.40"),
        ] {
            let config = MpiConfig {
                launcher: Some(launcher),
                ..MpiConfig::default()
            };
            let found = positions(&config, &[first, last]);
            assert!(found[0].is_some() && found[0] < found[1], "{found:?}");
        }
    }

    #[test]
    fn directories_of_the_launcher_come_before_the_loaders() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("lib/libmpi.so.40");
        fs::create_dir(directory.path().join("lib")).unwrap();
        fs::write(&library, "").unwrap();
        let config = MpiConfig {
            prefixes: vec![directory.path().to_owned()],
            ..MpiConfig::default()
        };
        let found = positions(&config, &[library.to_str().unwrap(), "libmpi.so.40"]);
        assert!(found[0].is_some() && found[0] < found[1], "{found:?}");
    }

    #[test]
    fn loaded_libraries_and_launchers_are_recognized() {
        let line = "7f0-7f1 r-xp 00000000 08:01 12    /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4";
        assert_eq!(
            mapped_library(line),
            Some("/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4")
        );
        for other in [
            "7f0-7f1 r-xp 00000000 08:01 12    /usr/lib/libmpi_cxx.so.40",
            "7f0-7f1 r-xp 00000000 00:00 0",
            "7f0-7f1 r-xp 00000000 08:01 12    /x/libmpi",
        ] {
            assert_eq!(mapped_library(other), None, "{other}");
        }
        assert_eq!(
            prefix_of_launcher(Path::new("/opt/mpi/bin/orted")),
            Some("/opt/mpi".into())
        );
        assert_eq!(prefix_of_launcher(Path::new("/usr/bin/bash")), None);
    }
}
