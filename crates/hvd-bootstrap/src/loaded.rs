//! Libraries that this process has loaded, as `/proc` shows them: `mpi4py` may have initialised MPI,
//! and the library of PMIx that the launcher's own MPI uses is the one to use.

use std::fs;
use std::path::PathBuf;

use crate::os::SharedLibrary;

/// Whether MPI is initialised, by whatever library.
pub(crate) fn mpi_is_initialized() -> bool {
    let library = |path: PathBuf| SharedLibrary::loaded(&path);
    let mut libraries = ["libmpi.so", "libmpich.so", "libmpi_abi.so"]
        .into_iter()
        .flat_map(paths)
        .filter_map(library);
    libraries.any(|library| library.ask(c"MPI_Initialized") == Some(true))
}

/// Files that are mapped into this process and whose names begin so.
pub(crate) fn paths(beginning: &str) -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    find(&maps, beginning)
}

fn find(maps: &str, beginning: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.find('/').map(|at| PathBuf::from(&line[at..]));
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(beginning))
    };
    let mut found: Vec<PathBuf> = maps.lines().filter_map(path).filter(is_wanted).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_by_the_beginning_of_their_names() {
        let maps = "7f00-7f01 r--p 00000000 fe:00 1 /usr/lib/libmpi.so.40.30.4\n\
                    7f01-7f02 r-xp 00000000 fe:00 1 /usr/lib/libmpi.so.40.30.4\n\
                    7f03-7f04 r-xp 00000000 fe:00 2 /opt/a b/libmpi_cxx.so.40\n\
                    7ffc-7ffd rw-p 00000000 00:00 0 [stack]\n";
        assert_eq!(
            find(maps, "libmpi.so"),
            [PathBuf::from("/usr/lib/libmpi.so.40.30.4")]
        );
        assert_eq!(
            find(maps, "libmpi_"),
            [PathBuf::from("/opt/a b/libmpi_cxx.so.40")]
        );
        assert!(!paths("libc.so").is_empty() || !paths("libc-").is_empty());
        assert!(!mpi_is_initialized());
    }
}
