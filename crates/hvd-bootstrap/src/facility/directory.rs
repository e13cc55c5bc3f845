//! A file in a directory that all ranks see, for launchers that pass nothing on: `srun --mpi=none`,
//! `torchrun`, a loop of `ssh`.
//!
//! - `FILE-1` only the user can read it: mode 0600, in a directory of mode 0700; a file that others
//!   could have written or read is refused.
//! - `FILE-2` it appears whole, by renaming, and replaces one that an earlier job has left. A rank
//!   that has read such a leftover finds no store and reads again.
//! - `FILE-3` rank 0 removes it when all ranks have met, so the key does not stay.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hvd_config::BootstrapConfig;
use hvd_types::Rank;

use super::Facility;
use crate::announcement::Announcement;
use crate::store;

/// Between two looks: shared file systems tell nobody of new files.
const LOOK: Duration = Duration::from_millis(20);

/// How long the store of a file that was found may take to answer. A leftover fails at once.
const TRIAL: Duration = Duration::from_secs(5);

/// A job's file.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    rank: Rank,
}

impl Directory {
    /// The file of this job; none if neither the launcher nor the user names the job.
    pub(crate) fn of(job: Option<&str>, config: &BootstrapConfig, rank: Rank) -> Option<Self> {
        let path = match (&config.directory, job) {
            (Some(directory), job) => directory.join(job.unwrap_or("job")),
            (None, Some(job)) => config.home.as_ref()?.join(".horovod/bootstrap").join(job),
            (None, None) => return None,
        };
        Some(Self { path, rank })
    }

    /// The same for some of the ranks.
    pub(crate) fn narrowed(mut self, ranks: &str) -> Self {
        let name = self
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        self.path
            .set_file_name(format!("{}-of-{ranks}", name.unwrap_or_default()));
        self
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let parent = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        let temporary = self
            .path
            .with_extension(format!("{}.new", std::process::id()));
        // One of a process with the same number that was killed.
        let _ = fs::remove_file(&temporary);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)
    }

    /// The text, if it is there; an error if it cannot be trusted.
    fn read(&self) -> std::result::Result<Option<String>, String> {
        let path = self.path.display();
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot open `{path}`: {error}")),
        };
        let facts = file
            .metadata()
            .map_err(|error| format!("`{path}`: {error}"))?;
        let user = rustix::process::geteuid().as_raw();
        if facts.uid() != user || facts.mode() & 0o077 != 0 {
            return Err(format!(
                "`{path}` belongs to user {} and has mode {:o}, so others may have read or written \
                 the key in it; remove it",
                facts.uid(),
                facts.mode() & 0o777
            ));
        }
        let mut text = String::new();
        let read = file.take(super::LONGEST).read_to_string(&mut text);
        read.map_err(|error| format!("cannot read `{path}`: {error}"))?;
        Ok(Some(text))
    }

    /// Whether a store answers there: if not, the file is an earlier job's.
    fn is_alive(&self, text: &str, end: Instant) -> std::result::Result<(), String> {
        let announcement = Announcement::decode(text).map_err(|error| error.to_string())?;
        let end = end.min(Instant::now() + TRIAL);
        let who = (self.rank, "this one");
        store::connect(&announcement, who, end)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    fn missing(&self, last: Option<String>, seconds: u64) -> String {
        let path = self.path.display();
        let what = last.map_or_else(
            || format!("`{path}`, which rank 0 writes, did not appear within {seconds} s"),
            |reason| format!("`{path}` is of an earlier job ({reason}) and was not replaced within {seconds} s"),
        );
        format!(
            "{what}. Has rank 0 called hvd.init()? Do all hosts see this directory? Set \
             HOROVOD_BOOTSTRAP_DIR to one that they share, or use a launcher that passes the address on \
             (`srun --mpi=pmix`, `srun --mpi=pmi2`, `mpirun`)"
        )
    }
}

impl Facility for Directory {
    fn name(&self) -> String {
        "a file in a shared directory".to_owned()
    }

    fn share(&mut self, text: Option<&str>, end: Instant) -> std::result::Result<String, String> {
        if let Some(text) = text {
            let written = self.write(text);
            let path = self.path.display();
            return written.map(|()| text.to_owned()).map_err(|error| {
                format!(
                    "cannot write `{path}`: {error}; set HOROVOD_BOOTSTRAP_DIR to a directory that \
                     all ranks can write and read"
                )
            });
        }
        let began = Instant::now();
        // Nothing is ever sent: a wait that can end only by time.
        let (_sender, never) = mpsc::channel::<()>();
        let mut last: Option<(String, String)> = None;
        loop {
            let text = self.read()?;
            // A leftover is tried once.
            if let Some(text) = text
                && last.as_ref().is_none_or(|(leftover, _)| *leftover != text)
            {
                match self.is_alive(&text, end) {
                    Ok(()) => return Ok(text),
                    Err(reason) => last = Some((text, reason)),
                }
            }
            if Instant::now() >= end {
                let reason = last.map(|(_, reason)| reason);
                return Err(self.missing(reason, began.elapsed().as_secs()));
            }
            let _ = never.recv_timeout(LOOK);
        }
    }

    fn shared(&mut self) {
        if self.rank == Rank::COORDINATOR {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;
    use crate::store::{JobStore, Reach, serve};

    fn config(directory: &Path) -> BootstrapConfig {
        let pairs = [("HOROVOD_BOOTSTRAP_DIR", directory.to_str().unwrap())];
        BootstrapConfig::read(&pairs.into_iter().collect()).unwrap()
    }

    fn directory(config: &BootstrapConfig, rank: u32) -> Directory {
        Directory::of(Some("job"), config, Rank::new(rank)).unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn announced(config: &BootstrapConfig) -> (JobStore, String) {
        let store = serve(config, Reach::ThisHost).unwrap();
        let text = store.announcement.encode();
        (store, text)
    }

    #[test]
    fn file_1_what_others_could_have_written_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let config = config(&scratch.path().join("new"));
        let first = directory(&config, 0);
        first.write("x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&first.path), 0o600);
        assert_eq!(mode(first.path.parent().unwrap()), 0o700);
        fs::set_permissions(&first.path, fs::Permissions::from_mode(0o640)).unwrap();
        let refusal = directory(&config, 1).share(None, soon()).unwrap_err();
        assert!(refusal.contains("has mode 640"), "{refusal}");
    }

    #[test]
    fn file_2_a_leftover_is_passed_over() {
        let scratch = tempfile::tempdir().unwrap();
        let config = config(scratch.path());
        let (store, leftover) = announced(&config);
        drop(store);
        directory(&config, 0)
            .share(Some(&leftover), soon())
            .unwrap();
        let other = directory(&config, 1);
        let mut waiting = Directory {
            path: other.path.clone(),
            rank: other.rank,
        };
        let (_store, text) = announced(&config);
        let mut first = directory(&config, 0);
        let received = thread::scope(|scope| {
            let waiter = scope.spawn(|| waiting.share(None, soon()));
            first.share(Some(&text), soon()).unwrap();
            waiter.join().unwrap()
        });
        assert_eq!(received.unwrap(), text);
        first.shared();
        assert!(!other.path.exists(), "FILE-3");
    }

    #[test]
    fn a_file_that_never_comes_is_explained() {
        let scratch = tempfile::tempdir().unwrap();
        let config = config(scratch.path());
        let failure = directory(&config, 1)
            .share(None, Instant::now())
            .unwrap_err();
        assert!(failure.contains("did not appear within 0 s"), "{failure}");
        assert!(failure.contains("HOROVOD_BOOTSTRAP_DIR"), "{failure}");
    }
}
