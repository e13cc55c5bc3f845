//! Where running jobs can be found: one socket per job in a directory of the user's own.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::process::getuid;

/// How the names of sockets end; before it stands the process number of `horovodrun`.
const SUFFIX: &str = ".sock";

/// The rights of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Directories in which jobs of this user may be, the preferred one first. A job and whoever asks
/// it may have been started with different environments, so both are looked at.
pub(super) fn directories(environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let runtime = environment
        .iter()
        .find(|(name, value)| name == "XDG_RUNTIME_DIR" && !value.is_empty())
        .map(|(_, value)| Path::new(value).join("horovod"));
    let temporary = PathBuf::from(format!("/tmp/horovod-{}", getuid().as_raw()));
    runtime.into_iter().chain([temporary]).collect()
}

/// Makes a directory that nobody else can enter, or checks that it is one.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => check(directory),
    }
}

/// Fails unless it is a directory of this user's that nobody else can enter.
pub(super) fn check(directory: &Path) -> io::Result<()> {
    // Not of what a link points at: the link itself would be the trick.
    let found = fs::symlink_metadata(directory)?;
    let is_private = found.mode() & OTHERS == 0;
    if found.is_dir() && found.uid() == getuid().as_raw() && is_private {
        return Ok(());
    }
    let text = "not a directory that only this user can enter";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// The socket of the job of one `horovodrun`.
pub(super) fn socket(directory: &Path, keeper: i32) -> PathBuf {
    directory.join(format!("{keeper}{SUFFIX}"))
}

/// The sockets in a directory, whether somebody listens or not.
pub(super) fn sockets(directory: &Path) -> Vec<PathBuf> {
    if check(directory).is_err() {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| is_socket(path.file_name()))
        .collect();
    found.sort();
    found
}

fn is_socket(name: Option<&OsStr>) -> bool {
    let number = name
        .and_then(OsStr::to_str)
        .and_then(|name| name.strip_suffix(SUFFIX));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_private_directory_of_ours_will_do() {
        let scratch = tempfile::tempdir().unwrap();
        let good = scratch.path().join("good");
        prepare(&good).unwrap();
        prepare(&good).unwrap();
        let link = scratch.path().join("link");
        symlink(&good, &link).unwrap();
        assert!(prepare(&link).is_err(), "a link");
        fs::set_permissions(&good, PermissionsExt::from_mode(0o710)).unwrap();
        assert!(prepare(&good).is_err(), "open to a group");
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(prepare(&file).is_err(), "a file");
        assert!(check(&scratch.path().join("none")).is_err());
    }

    #[test]
    fn sockets_are_found_by_name() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("jobs");
        prepare(&place).unwrap();
        for name in ["12.sock", "x.sock", "12.txt", "-1.sock"] {
            fs::write(place.join(name), "").unwrap();
        }
        assert_eq!(sockets(&place), [socket(&place, 12)]);
        fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(sockets(&place), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_runtime_directory_comes_first() {
        let environment = [("XDG_RUNTIME_DIR".into(), "/run/user/7".into())];
        let found = directories(&environment);
        assert_eq!(found[0], Path::new("/run/user/7/horovod"));
        assert_eq!(found.len(), 2);
        assert_eq!(directories(&[]).len(), 1);
    }
}
