//! Files that the engine writes and users name: opened so that nothing waits. Opening a
//! FIFO without a reader would block for ever.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Creates a file, or empties the one that is there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let opened = options
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::NXIO.raw_os_error() => {
            io::Error::other("it is a FIFO without a reader; give the name of a file")
        }
        _ => error,
    })?;
    // Writing may wait again.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// As [`create`], for a file that is not written from its beginning to its end.
pub(crate) fn create_seekable(path: &Path) -> io::Result<File> {
    let file = create(path)?;
    if file.metadata()?.file_type().is_fifo() {
        let text = "it is a FIFO, and has to be a file: not all of it is written in order";
        return Err(io::Error::other(text));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_fifo(path: &Path) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    #[test]
    fn a_fifo_without_a_reader_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        make_fifo(&path);
        for create in [create, create_seekable] {
            let error = create(&path).unwrap_err().to_string();
            assert_eq!(
                error,
                "it is a FIFO without a reader; give the name of a file"
            );
        }
        let _reader = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)
            .unwrap();
        let flags = fcntl_getfl(create(&path).unwrap()).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
        let error = create_seekable(&path).unwrap_err().to_string();
        assert!(error.contains("has to be a file"), "{error}");
    }

    #[test]
    fn a_file_is_made_or_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for _ in 0..2 {
            let mut file = create_seekable(&path).unwrap();
            io::Write::write_all(&mut file, b"text").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"text");
        }
    }
}
