//! `--output-filename`: a directory with `rank.<rank>/stdout` and `rank.<rank>/stderr`, the rank
//! padded with zeros so that a listing is in order. Files of an earlier job are overwritten.

use std::{
    fs::{self, File},
    path::Path,
};

use super::outlet::Outlet;
use crate::{
    error::{Error, Result},
    messages,
    process::Stream,
};

/// The output files of all ranks.
#[derive(Debug, Default)]
pub(crate) struct OutputFiles(Vec<[OutputFile; 2]>);

#[derive(Debug)]
struct OutputFile {
    outlet: Outlet<File>,
    /// Whether the last line in the file lacks its end.
    is_unfinished: bool,
    /// Lines that are missing in the file without a word in it about that.
    gap: u64,
}

impl OutputFile {
    /// Appends; where lines are missing, the file says so.
    fn write(&mut self, bytes: &[u8]) -> Option<String> {
        let mut head = String::new();
        if self.gap > 0 {
            if self.is_unfinished {
                head.push('\n');
            }
            head.push_str(&messages::gap(self.gap));
        }
        let attempt = self.outlet.write(head.as_bytes(), bytes);
        if let Some(is_unfinished) = attempt.is_unfinished {
            self.is_unfinished = is_unfinished;
        }
        if attempt.has_head {
            self.gap = 0;
        }
        self.gap += attempt.lost;
        attempt.notice
    }
}

impl OutputFiles {
    /// Creates directory and files for `ranks` ranks.
    pub(crate) fn create(directory: &Path, ranks: usize) -> Result<Self> {
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

    /// Appends to the file of one stream of one rank. Returns what the user has to know, if
    /// anything: a file that cannot be written is reported once.
    pub(crate) fn write(&mut self, rank: usize, stream: Stream, bytes: &[u8]) -> Option<String> {
        let pair = self.0.get_mut(rank)?;
        pair[stream as usize].write(bytes)
    }

    /// Whether everything was written.
    pub(crate) fn is_complete(&self) -> bool {
        self.all().all(|file| file.outlet.is_complete())
    }

    /// What the user has to know at the end about any of the files.
    pub(crate) fn summaries(&self) -> Vec<String> {
        self.all()
            .filter_map(|file| file.outlet.summary())
            .collect()
    }

    fn all(&self) -> impl Iterator<Item = &OutputFile> {
        self.0.iter().flatten()
    }
}

fn open(directory: &Path, stream: Stream) -> Result<OutputFile> {
    let path = directory.join(stream.name());
    match File::create(&path) {
        Ok(file) => Ok(OutputFile {
            outlet: Outlet::new(format!("`{}`", path.display()), file),
            is_unfinished: false,
            gap: 0,
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
        let notice = files.write(0, Stream::Stdout, b"x\n").unwrap();
        let expected = format!("cannot write `{}`: No space left", stdout.display());
        assert!(notice.starts_with(&expected), "{notice}");
        assert_eq!(files.write(0, Stream::Stdout, b"y\n"), None);
        assert_eq!(files.write(0, Stream::Stderr, b"z\n"), None);
        let summaries = files.summaries();
        assert!(summaries.len() == 1 && summaries[0].starts_with("2 lines of `"));
        assert!(!files.is_complete());
        assert_eq!(
            fs::read(scratch.path().join("rank.0/stderr")).unwrap(),
            b"z\n"
        );
    }

    #[test]
    fn a_file_says_where_lines_are_missing() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut file = OutputFile {
            outlet: Outlet::new("`file`".to_owned(), full),
            is_unfinished: true,
            gap: 0,
        };
        assert!(file.write(b"lost\n").is_some());
        assert!(file.write(b"lost\nlost").is_none());
        assert_eq!(file.gap, 3, "a marker that is lost is no line of the rank");
        file.outlet = Outlet::new("`file`".to_owned(), File::create(&path).unwrap());
        file.write(b"kept\n");
        file.write(b"kept\n");
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "\nhorovodrun: 3 lines are missing here\nkept\nkept\n"
        );
    }
}
