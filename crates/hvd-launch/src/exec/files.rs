//! `--output-filename`: a directory with `rank.<rank>/stdout` and `rank.<rank>/stderr`, the rank
//! padded with zeros so that a listing is in order. Files of an earlier job are overwritten.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::output::Stream;
use crate::{Error, Result};

/// The output files of all ranks.
#[derive(Debug, Default)]
pub(super) struct OutputFiles(Vec<[OutputFile; 2]>);

#[derive(Debug)]
struct OutputFile {
    path: PathBuf,
    /// Gone after the first failure: a file with a hole in it would be worse than a short one.
    file: Option<File>,
}

/// A file that has just failed; it is reported once.
#[derive(Debug)]
pub(super) struct FileFailure {
    pub(super) path: PathBuf,
    pub(super) error: io::Error,
}

impl OutputFiles {
    /// Creates directory and files for `ranks` ranks.
    pub(super) fn create(directory: &Path, ranks: usize) -> Result<Self> {
        let digits = ranks.saturating_sub(1).to_string().len();
        let pair = |rank: usize| {
            let directory = directory.join(format!("rank.{rank:0digits$}"));
            fs::create_dir_all(&directory).map_err(|source| Error::OutputFile {
                path: directory.clone(),
                source,
            })?;
            Ok([
                open(&directory, Stream::Stdout)?,
                open(&directory, Stream::Stderr)?,
            ])
        };
        (0..ranks).map(pair).collect::<Result<_>>().map(Self)
    }

    /// Appends to the file of one stream of one rank.
    ///
    /// # Errors
    /// The first failure of each file; afterwards the file is left alone.
    pub(super) fn write(
        &mut self,
        rank: usize,
        stream: Stream,
        bytes: &[u8],
    ) -> std::result::Result<(), FileFailure> {
        let Some(pair) = self.0.get_mut(rank) else {
            return Ok(());
        };
        let OutputFile { path, file } = &mut pair[stream as usize];
        let Some(Err(error)) = file.as_mut().map(|file| file.write_all(bytes)) else {
            return Ok(());
        };
        *file = None;
        Err(FileFailure {
            path: path.clone(),
            error,
        })
    }
}

fn open(directory: &Path, stream: Stream) -> Result<OutputFile> {
    let path = directory.join(stream.name());
    match File::create(&path) {
        Ok(file) => Ok(OutputFile {
            path,
            file: Some(file),
        }),
        Err(source) => Err(Error::OutputFile { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_padded_to_the_width_of_the_last() {
        for (ranks, expected) in [
            (1, "rank.0"),
            (10, "rank.9"),
            (11, "rank.09"),
            (101, "rank.009"),
        ] {
            let scratch = tempfile::tempdir().unwrap();
            OutputFiles::create(scratch.path(), ranks).unwrap();
            assert!(
                scratch.path().join(expected).join("stderr").exists(),
                "{ranks} ranks"
            );
        }
    }

    #[test]
    fn a_full_disk_is_reported_once_per_file() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("rank.0")).unwrap();
        let stdout = scratch.path().join("rank.0/stdout");
        std::os::unix::fs::symlink("/dev/full", &stdout).unwrap();
        let mut files = OutputFiles::create(scratch.path(), 1).unwrap();
        let failure = files.write(0, Stream::Stdout, b"x\n").unwrap_err();
        assert_eq!(
            (failure.path, failure.error.kind()),
            (stdout, io::ErrorKind::StorageFull)
        );
        assert!(files.write(0, Stream::Stdout, b"y\n").is_ok());
        assert!(files.write(0, Stream::Stderr, b"z\n").is_ok());
        assert_eq!(
            fs::read(scratch.path().join("rank.0/stderr")).unwrap(),
            b"z\n"
        );
    }
}
