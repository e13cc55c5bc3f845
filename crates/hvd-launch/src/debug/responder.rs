//! The side of the driver, or of rank 0 in a job without one: listens at the job's socket and answers
//! clients that may ask. A job that cannot listen runs without.
//!
//! ```text
//! caller   'd' or 'a'
//! driver   frame: description | after 'a': frame: a letter per rank | frame: reports
//! ```
//!
//! * DEBUG-1 only the same user and root are answered; others are counted and logged at most once a
//!   minute.
//! * DEBUG-2 the socket is removed when the job ends: by the driver, or by the supervisor if the
//!   driver was killed. What is left if both were is removed by the next client that looks for
//!   jobs.
//! * DEBUG-3 at most 256 clients are served at once, and each has five seconds to ask. One more
//!   closes the oldest that has not asked; a process that has no more files closes all of these,
//!   and goes on listening.

use std::{
    collections::VecDeque,
    fs, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hvd_rendezvous::{
    Error as RendezvousError, MemoryStore,
    accept::{Proof, Refusals, is_shortage},
    frame, status_query,
};
use hvd_types::Rank;
use rustix::process::{getpid, getppid, getuid};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::{AbortHandle, spawn_blocking},
    time::{sleep, timeout},
};

use super::{
    DESCRIBE, STATUS,
    description::JobDescription,
    roster::{RankState, Roster},
    socket_dir,
};
use crate::spec::JobSpec;

/// How long rank 0 has for its answer; it gives the other ranks two seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long a caller may take to say what it wants.
const QUESTION_LIMIT: Duration = Duration::from_secs(5);

/// How many may ask at once.
const MAX_CLIENTS: usize = 256;

/// How long to wait when the process has no more files, before the next try.
const SHORTAGE_DELAY: Duration = Duration::from_millis(100);

/// How long a whole conversation may take.
const CONVERSATION_LIMIT: Duration = Duration::from_secs(10);

/// A job that can be asked, until this is dropped.
#[derive(Debug)]
pub(crate) struct DebugEndpoint {
    path: PathBuf,
    task: AbortHandle,
}

/// What is needed for answers.
#[derive(Debug)]
struct JobResponder {
    supervisor: i32,
    command: String,
    began: Instant,
    roster: Roster,
    store: MemoryStore,
    last_question: AtomicU64,
    refusals: Refusals,
}

/// A job that can be asked.
#[derive(Debug)]
pub(super) struct AskedJob {
    /// The process that stands for the job.
    pub(super) supervisor: i32,
    pub(super) command: String,
    /// Where the socket may be, the preferred place first.
    pub(super) directories: Vec<PathBuf>,
    pub(super) roster: Roster,
    pub(super) store: MemoryStore,
}

impl DebugEndpoint {
    /// Listens from now on. Must be called by the driver, whose parent is the supervisor.
    pub(crate) fn open(spec: &JobSpec, roster: Roster, store: MemoryStore) -> Option<Self> {
        Self::listen(AskedJob {
            supervisor: getppid()?.as_raw_pid(),
            command: spec.command.join(" "),
            directories: socket_dir::directories(&spec.inherited),
            roster,
            store,
        })
    }

    /// Listens from now on, on the caller's runtime.
    pub(super) fn listen(job: AskedJob) -> Option<Self> {
        let (listener, path) = open_first(&job.directories, job.supervisor)?;
        let responder = Arc::new(JobResponder {
            supervisor: job.supervisor,
            command: job.command,
            began: Instant::now(),
            roster: job.roster,
            store: job.store,
            last_question: AtomicU64::new(0),
            refusals: Refusals::new("hvd-debug", Proof::User),
        });
        let task = tokio::spawn(serve(listener, responder)).abort_handle();
        Some(Self { path, task })
    }
}

impl Drop for DebugEndpoint {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens in the first directory in which that works; warns if there is none.
fn open_first(directories: &[PathBuf], supervisor: i32) -> Option<(UnixListener, PathBuf)> {
    let mut problems = Vec::new();
    for directory in directories {
        let path = socket_dir::socket(directory, supervisor);
        match socket_dir::prepare(directory).and_then(|()| listen(&path)) {
            Ok(listener) => return Some((listener, path)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                problems.push(error.to_string());
            }
            Err(error) => problems.push(format!("`{}`: {error}", path.display())),
        }
    }
    let problems = problems.join("; ");
    tracing::warn!("`horovodrun debug` will not find this job: {problems}");
    None
}

/// Removes the socket of the job that `supervisor` kept.
pub(crate) fn remove_endpoint(spec: &JobSpec, supervisor: i32) {
    for directory in socket_dir::directories(&spec.inherited) {
        if socket_dir::check(&directory).is_ok() {
            let _ = fs::remove_file(socket_dir::socket(&directory, supervisor));
        }
    }
}

fn listen(path: &PathBuf) -> io::Result<UnixListener> {
    // Left by a killed launcher whose number is ours now.
    let _ = fs::remove_file(path);
    UnixListener::bind(path)
}

/// A client in conversation.
struct DebugCaller {
    task: AbortHandle,
    has_asked: Arc<AtomicBool>,
}

impl DebugCaller {
    fn serve(stream: UnixStream, responder: Arc<JobResponder>) -> Self {
        let has_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&has_asked);
        let task = tokio::spawn(async move {
            match timeout(CONVERSATION_LIMIT, responder.respond(stream, &asked)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a question was not answered"),
                Err(_) => tracing::debug!("a question was not answered in time"),
            }
        });
        Self {
            task: task.abort_handle(),
            has_asked,
        }
    }

    fn is_waiting(&self) -> bool {
        !self.has_asked.load(Ordering::Relaxed)
    }
}

async fn serve(listener: UnixListener, responder: Arc<JobResponder>) {
    let mut clients: VecDeque<DebugCaller> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                make_room(&mut clients);
                clients.push_back(DebugCaller::serve(stream, Arc::clone(&responder)));
            }
            // DEBUG-3
            Err(error) if is_shortage(&error) => {
                let error = RendezvousError::io("accepting")(error);
                responder.refusals.shortage(&error);
                let waiting = clients.iter().filter(|client| client.is_waiting());
                waiting.for_each(|client| client.task.abort());
                sleep(SHORTAGE_DELAY).await;
            }
            Err(error) => tracing::debug!(%error, "a caller has gone again"),
        }
    }
}

/// Makes room for one more client: where there is none, the oldest goes that has not asked yet.
fn make_room(clients: &mut VecDeque<DebugCaller>) {
    clients.retain(|client| !client.task.is_finished());
    if clients.len() < MAX_CLIENTS {
        return;
    }
    let oldest = clients
        .iter()
        .position(DebugCaller::is_waiting)
        .unwrap_or(0);
    if let Some(client) = clients.remove(oldest) {
        client.task.abort();
    }
}

impl JobResponder {
    async fn respond(&self, mut stream: UnixStream, has_asked: &AtomicBool) -> io::Result<()> {
        let user = stream.peer_cred()?.uid();
        if user != getuid().as_raw() && user != 0 {
            let peer = format!("user {user}");
            self.refusals.refuse(&peer, &RendezvousError::AnotherUser);
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut reply = Vec::new();
        let question = timeout(QUESTION_LIMIT, stream.read_u8()).await??;
        has_asked.store(true, Ordering::Relaxed);
        put(&mut reply, self.description().to_text().as_bytes())?;
        match question {
            DESCRIBE => {}
            STATUS => {
                let states = self.states();
                let letters: String = states.iter().map(|it| it.letter()).collect();
                put(&mut reply, letters.as_bytes())?;
                put(&mut reply, &self.reports(&states).await)?;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        stream.write_all(&reply).await
    }

    fn description(&self) -> JobDescription {
        JobDescription {
            supervisor: self.supervisor,
            driver: getpid().as_raw_pid(),
            age: self.began.elapsed(),
            command: self.command.clone(),
            ranks: self.roster.ranks(),
        }
    }

    fn states(&self) -> Vec<RankState> {
        let ends = self.roster.ends().into_iter().enumerate();
        ends.map(|(index, ended)| {
            if ended {
                RankState::Ended
            } else if status_query::has_arrived(&mut self.store.clone(), Rank::from_index(index)) {
                RankState::Present
            } else {
                RankState::Absent
            }
        })
        .collect()
    }

    /// What the ranks say; nothing if rank 0 cannot or does not answer.
    async fn reports(&self, states: &[RankState]) -> Vec<u8> {
        let complete = !states.contains(&RankState::Absent);
        if !complete || states.first() != Some(&RankState::Present) {
            return Vec::new();
        }
        let number = self.last_question.fetch_add(1, Ordering::Relaxed) + 1;
        let mut store = self.store.clone();
        // The wait ends with the store, and that with the job.
        let answer =
            spawn_blocking(move || status_query::ask(&mut store, number, ANSWER_LIMIT)).await;
        answer.ok().and_then(Result::ok).unwrap_or_default()
    }
}

fn put(reply: &mut Vec<u8>, message: &[u8]) -> io::Result<()> {
    frame::write(reply, message, "answering a status query").map_err(io::Error::other)
}
