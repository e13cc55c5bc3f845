//! Where running jobs can be found: one socket per job in a directory of the user's own. Another
//! user may have made a directory of the name first, in `/tmp` or `/dev/shm`: it is not used, the
//! next one is, and clients that look for jobs report it.

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

/// The permissions of all users but the owner.
const OTHERS: u32 = 0o077;

/// Directories in which jobs of this user may be, the preferred one first. A job and a client
/// it may have been started with different environments, so all are looked at.
pub(super) fn directories(environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let runtime = environment
        .iter()
        .find(|(name, value)| name == "XDG_RUNTIME_DIR" && !value.is_empty())
        .map(|(_, value)| Path::new(value).join("horovod"));
    let name = format!("horovod-{}", getuid().as_raw());
    let shared = ["/tmp", "/dev/shm"].map(|directory| Path::new(directory).join(&name));
    runtime.into_iter().chain(shared).collect()
}

/// Makes a directory that no other user can enter, or checks that it is one.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => check(directory),
    }
}

/// Fails unless it is a directory of this user's that no other user can enter; the error says what
/// to do.
pub(super) fn check(directory: &Path) -> io::Result<()> {
    // Not of what a link points at: the link itself would be the trick.
    let found = fs::symlink_metadata(directory)?;
    let (path, me) = (directory.display(), getuid().as_raw());
    let problem = if found.uid() != me {
        format!(
            "`{path}` belongs to {}, not to you; have it removed (`rm -r {path}`), or set \
             XDG_RUNTIME_DIR to a directory of your own",
            user(found.uid())
        )
    } else if !found.is_dir() {
        format!("`{path}` is not a directory; remove it")
    } else if found.mode() & OTHERS != 0 {
        format!("others can enter `{path}`; run `chmod 700 {path}`")
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// What is wrong with the directories that exist but are not used.
pub(super) fn problems(directories: &[PathBuf]) -> Vec<String> {
    let checked = directories.iter().map(|directory| check(directory));
    let errors = checked.filter_map(Result::err);
    errors
        .filter(|error| error.kind() != io::ErrorKind::NotFound)
        .map(|error| error.to_string())
        .collect()
}

/// A user by name, if this machine's own list has it, and number.
fn user(number: u32) -> String {
    let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    });
    match name {
        Some(name) => format!("user `{name}` ({number})"),
        None => format!("user {number}"),
    }
}

/// The socket of the job of one `horovodrun`.
pub(super) fn socket(directory: &Path, supervisor: i32) -> PathBuf {
    directory.join(format!("{supervisor}{SUFFIX}"))
}

/// The sockets in a directory, with and without a listener.
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
    fn what_is_wrong_with_a_directory_is_said_with_its_remedy() {
        let scratch = tempfile::tempdir().unwrap();
        let open = scratch.path().join("open");
        prepare(&open).unwrap();
        assert_eq!(
            problems(&[open.clone(), scratch.path().join("none")]),
            [""; 0]
        );
        fs::set_permissions(&open, PermissionsExt::from_mode(0o755)).unwrap();
        let found = problems(std::slice::from_ref(&open));
        assert_eq!(found.len(), 1);
        let remedy = format!("run `chmod 700 {}`", open.display());
        assert!(found[0].ends_with(&remedy), "{found:?}");
        assert_eq!(user(0), "user `root` (0)");
        assert_eq!(user(u32::MAX - 7), "user 4294967288");
        // What belongs to another user: to root, or, for root, only the tests with real users know.
        if getuid().as_raw() != 0 {
            let found = problems(&[PathBuf::from("/")]);
            assert!(found[0].contains("belongs to user `root`"), "{found:?}");
        }
    }

    #[test]
    fn sockets_are_found_by_name() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("jobs");
        prepare(&directory).unwrap();
        for name in ["12.sock", "x.sock", "12.txt", "-1.sock"] {
            fs::write(directory.join(name), "").unwrap();
        }
        assert_eq!(sockets(&directory), [socket(&directory, 12)]);
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(sockets(&directory), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_runtime_directory_comes_first() {
        let environment = [("XDG_RUNTIME_DIR".into(), "/run/user/7".into())];
        let found = directories(&environment);
        assert_eq!(found[0], Path::new("/run/user/7/horovod"));
        assert_eq!(found.len(), 3);
        assert_eq!(directories(&[]), found[1..]);
    }
}
