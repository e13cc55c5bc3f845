//! The asking side: finds the jobs of this user and asks one of them.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use hvd_rendezvous::{
    deadline::{self, Timed},
    frame,
};
use hvd_wire::snapshot::RankReport;

use super::{DESCRIBE, STATUS, description::JobDescription, roster::RankState, socket_dir};
use crate::error::{Error, Result};

/// How long a job has to say who it is.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(3);

/// How long it has to say how it stands; a little longer than the driver gives rank 0.
const STATUS_LIMIT: Duration = Duration::from_secs(10);

/// A running job that can be asked.
#[derive(Debug)]
pub struct DebugClient {
    path: PathBuf,
    description: JobDescription,
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// The job.
    pub description: JobDescription,
    /// What the driver knows, by rank.
    pub states: Vec<RankState>,
    /// What the ranks say; empty if rank 0 did not answer.
    pub reports: Vec<RankReport>,
}

/// The jobs of this user on this machine that run now. Sockets of jobs that were killed are
/// removed.
pub fn find_jobs(environment: &[(OsString, OsString)]) -> Vec<DebugClient> {
    let directories = socket_dir::directories(environment);
    let sockets = directories
        .iter()
        .flat_map(|directory| socket_dir::sockets(directory));
    sockets.filter_map(DebugClient::at).collect()
}

/// Places where a job of this user could be but none is looked for, and what to do about each.
pub fn unusable_directories(environment: &[(OsString, OsString)]) -> Vec<String> {
    socket_dir::problems(&socket_dir::directories(environment))
}

impl DebugClient {
    fn at(path: PathBuf) -> Option<Self> {
        match converse(&path, DESCRIBE, DESCRIBE_LIMIT) {
            Ok(mut messages) => Some(Self {
                description: describe(&messages.next_message().ok()?)?,
                path,
            }),
            Err(error) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    // Its listener is gone for good.
                    let _ = fs::remove_file(&path);
                }
                None
            }
        }
    }

    /// Which job it is.
    pub fn description(&self) -> &JobDescription {
        &self.description
    }

    /// Asks how the job stands.
    pub fn ask(&self) -> Result<JobStatus> {
        let supervisor = self.description.supervisor;
        let lost = move |source| Error::NoAnswer { supervisor, source };
        let mut messages = converse(&self.path, STATUS, STATUS_LIMIT).map_err(lost)?;
        let mut next = || messages.next_message().map_err(lost);
        let (description, letters, reports) = (next()?, next()?, next()?);
        let nonsense = || lost(io::ErrorKind::InvalidData.into());
        let letters = String::from_utf8_lossy(&letters);
        let states: Option<_> = letters.chars().map(RankState::from_letter).collect();
        let reports = if reports.is_empty() {
            Vec::new()
        } else {
            RankReport::decode_all(&reports).map_err(|_| nonsense())?
        };
        Ok(JobStatus {
            description: describe(&description).ok_or_else(nonsense)?,
            states: states.ok_or_else(nonsense)?,
            reports,
        })
    }
}

fn describe(message: &[u8]) -> Option<JobDescription> {
    JobDescription::from_text(&String::from_utf8_lossy(message))
}

/// A conversation under way.
struct Messages {
    stream: UnixStream,
    end: std::time::Instant,
}

fn converse(path: &Path, question: u8, limit: Duration) -> io::Result<Messages> {
    let (mut stream, end) = (UnixStream::connect(path)?, deadline::after(limit));
    stream.write_all(&[question])?;
    Ok(Messages { stream, end })
}

impl Messages {
    fn next_message(&mut self) -> io::Result<Vec<u8>> {
        let mut stream = Timed::new(&self.stream, self.end);
        let doing = "reading the answer of a job";
        let message = frame::read(&mut stream, frame::LIMIT, doing).map_err(io::Error::other)?;
        message.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
