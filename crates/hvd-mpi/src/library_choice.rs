//! Opens the first candidate that is an MPI library. Initializes nothing.

use std::sync::Arc;

use hvd_config::MpiConfig;

use crate::ffi::{Abi, Calls, DynamicLibrary, bind};
use crate::search::{LibraryCandidate, candidates};
use crate::{Error, Result};

/// The library that is used.
#[derive(Debug, Clone)]
pub(crate) struct ChosenLibrary {
    pub(crate) name: String,
    pub(crate) abi: Abi,
    pub(crate) calls: Arc<dyn Calls>,
}

/// Opens the job's MPI library.
pub(crate) fn choose(config: &MpiConfig) -> Result<ChosenLibrary> {
    let mut tried = Vec::new();
    for candidate in candidates(config) {
        match try_one(&candidate) {
            Ok((library, abi)) => {
                let name = candidate.name;
                let calls = bind(library, abi).map_err(|symbol| Error::MissingSymbol {
                    library: name.clone(),
                    symbol: symbol.to_str().unwrap_or_default(),
                })?;
                return Ok(ChosenLibrary { name, abi, calls });
            }
            Err(reason) => tried.push(format!("  {}: {reason}", candidate.name)),
        }
    }
    Err(Error::NoLibrary { tried })
}

fn try_one(candidate: &LibraryCandidate) -> std::result::Result<(DynamicLibrary, Abi), String> {
    let LibraryCandidate {
        name,
        must_be_loaded,
    } = candidate;
    let library = if *must_be_loaded {
        DynamicLibrary::find_loaded(name)?
    } else {
        DynamicLibrary::open(name)?
    };
    let abi = Abi::of(library).ok_or("it is not an MPI library of a known ABI")?;
    Ok((library, abi))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn refusal(library: &str) -> String {
        let config = MpiConfig {
            library: Some(library.into()),
            ..MpiConfig::default()
        };
        choose(&config).unwrap_err().to_string()
    }

    #[test]
    fn what_was_tried_is_listed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libmpi.so.40");
        // A linker script, as some packages have under the name without a version.
        fs::write(&path, "INPUT(libmpi.so.40)\n".repeat(100)).unwrap();
        let path = path.to_str().unwrap();
        let text = refusal(path);
        assert!(text.contains("set HOROVOD_MPI_LIBRARY"), "{text}");
        assert!(text.contains(&format!("\n  {path}: ")), "{text}");
        assert!(text.contains("invalid ELF header"), "{text}");
    }

    #[test]
    fn a_library_that_is_not_mpi_is_refused() {
        let text = refusal("libc.so.6");
        assert!(
            text.contains("libc.so.6: it is not an MPI library"),
            "{text}"
        );
    }
}
