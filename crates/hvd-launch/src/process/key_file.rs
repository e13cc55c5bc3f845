//! The job's key as a file that only its owner can read: the environment of a process can be read
//! by more programs, and is copied into more logs, than one would guess.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use hvd_rendezvous::JobKey;

use crate::error::{Error, Result};

/// A file with the key in it; removed when dropped.
#[derive(Debug)]
pub(crate) struct KeyFile(PathBuf);

impl KeyFile {
    /// A name that no other process will use, in the first place where a file can be made. The file
    /// is not made yet, so that more than one process can see to its end.
    pub(crate) fn reserve() -> Result<PathBuf> {
        let name = JobKey::generate()?.to_hex();
        let name = format!("horovod-{}-{}", rustix::process::getuid(), &name[..16]);
        let places = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
        Self::reserve_in(&places.map(|place| place.join(&name)))
    }

    /// The first of these paths at which a file can be made.
    fn reserve_in(paths: &[PathBuf]) -> Result<PathBuf> {
        let mut problems = Vec::new();
        for path in paths {
            match write_private(path, b"0") {
                Ok(()) => {
                    remove(path);
                    return Ok(path.clone());
                }
                Err(error) => problems.push(format!("`{}`: {error}", path.display())),
            }
        }
        Err(Error::NoKeyFile { problems })
    }

    /// Writes the key.
    pub(crate) fn create(path: &Path, key: &JobKey) -> Result<Self> {
        let text = format!("{}\n", key.to_hex());
        write_private(path, text.as_bytes()).map_err(|error| Error::NoKeyFile {
            problems: vec![format!("`{}`: {error}", path.display())],
        })?;
        Ok(Self(path.to_owned()))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a key file that may be gone already.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove the job's key");
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes).inspect_err(|_| remove(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_place_without_room_is_named() {
        let paths = ["/dev/full/key", "/nowhere/key"].map(PathBuf::from);
        let error = KeyFile::reserve_in(&paths).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot keep the job's key in a file: `/dev/full/key`: Not a directory (os error 20); \
             `/nowhere/key`: No such file or directory (os error 2); make room there, or set TMPDIR to \
             a directory that you may write to"
        );
        // Made, but without room for a byte.
        let error = write_private(Path::new("/dev/full"), b"0");
        assert!(error.is_err(), "never another user's file");
    }

    #[test]
    fn only_the_owner_may_read_it_and_it_goes_with_the_job() {
        let key = JobKey::generate().unwrap();
        let path = KeyFile::reserve().unwrap();
        assert!(!path.exists());
        let file = KeyFile::create(&path, &key).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), key.to_hex());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(
            KeyFile::create(&path, &key).is_err(),
            "never another user's file"
        );
        drop(file);
        assert!(!path.exists());
    }
}
