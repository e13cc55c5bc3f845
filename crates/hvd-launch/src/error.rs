//! Everything that can keep a job from starting or from ending well, with the facts a user needs to
//! act on it. What a worker did wrong is not an error of the launcher: that is a report, see
//! [`crate::messages`].

use std::{io, path::PathBuf, time::Duration};

use hvd_types::Rank;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with one host, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostTrouble {
    /// The host as the user wrote it.
    pub host: String,
    /// What is wrong.
    pub what: String,
    /// What mends it.
    pub remedy: String,
}

fn list(troubles: &[HostTrouble]) -> String {
    let each = |trouble: &HostTrouble| format!("{}; {}", trouble.what, trouble.remedy);
    let each: Vec<String> = troubles.iter().map(each).collect();
    match each.as_slice() {
        [one] => one.clone(),
        several => format!(
            "{} hosts cannot be used:\n  {}",
            several.len(),
            several.join("\n  ")
        ),
    }
}

/// Why a job could not be planned, started or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host list has no items at all.
    #[error("the host list is empty; write `host:slots,host:slots`, e.g. `-H localhost:4`")]
    NoHosts,
    /// An item of the host list is not `host:slots`.
    #[error(
        "`{item}` in the host list is not `host:slots`: {problem}; write e.g. `-H localhost:4`"
    )]
    HostSyntax {
        /// The item as written, without surrounding blanks.
        item: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The same host is listed twice.
    #[error(
        "host `{host}` is listed more than once; list it once with all its slots, e.g. `{item}`"
    )]
    DuplicateHost {
        /// The name, without user.
        host: String,
        /// What to write instead: the host with the sum of its slots so far.
        item: String,
    },
    /// A host file without a host.
    #[error(
        "the host file `{}` lists no host; write one on each line, e.g. `node1 slots=4`",
        file.display()
    )]
    HostFileEmpty {
        /// The file.
        file: PathBuf,
    },
    /// A line of a host file is not a host.
    #[error(
        "line {line} of the host file `{}`, `{text}`: {problem}; write e.g. `node1 slots=4`",
        file.display()
    )]
    HostFileSyntax {
        /// The file.
        file: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The line without comment and surrounding blanks.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A line of a host file says something about a host that has no meaning here.
    #[error(
        "line {line} of the host file `{}`: `{field}` is not known; only `slots=` may follow the \
         host, e.g. `{host} slots=4`", file.display()
    )]
    HostFileField {
        /// The file.
        file: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The host of that line as written.
        host: String,
        /// The field as written, without its value.
        field: String,
    },
    /// The same host is on two lines of a host file.
    #[error(
        "host `{host}` is on line {first} and on line {second} of the host file `{}`; keep one \
         line with all its slots, `{host} slots={slots}`", file.display()
    )]
    HostFileDuplicate {
        /// The file.
        file: PathBuf,
        /// The host as on the second line.
        host: String,
        /// The line it was first seen on, from 1.
        first: usize,
        /// The line that repeats it.
        second: usize,
        /// The sum of the slots of both.
        slots: u32,
    },
    /// More processes were asked for than the hosts have slots.
    #[error(
        "{wanted} processes do not fit: the hosts have {available} slots in all; lower `-np` to \
         {available} or less, or give the hosts more slots"
    )]
    TooFewSlots {
        /// Processes asked for.
        wanted: u32,
        /// Slots there are.
        available: u32,
    },
    /// Hosts that cannot be used.
    #[error("{}", list(troubles))]
    Hosts {
        /// One or more.
        troubles: Vec<HostTrouble>,
    },
    /// Some host does not reach some other.
    #[error("the hosts do not all reach each other:\n{report}")]
    Unreachable {
        /// The matrix, the likely causes and what to do.
        report: String,
    },
    /// An agent could not start its ranks.
    #[error("host `{host}`: {problem}")]
    OnHost {
        /// The host.
        host: String,
        /// What its agent says.
        problem: String,
        /// The exit status that belongs to it.
        code: i32,
    },
    /// The working directory does not exist on another host.
    #[error(
        "the working directory `{}` does not exist; create it, or mount the driver's there",
        path.display()
    )]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The limit of open files is too low for the ranks of this host.
    #[error("cannot start {ranks} ranks on this host: {}", shortage.remedy())]
    OpenFiles {
        /// How many there are to be.
        ranks: usize,
        /// What does not fit.
        shortage: hvd_rendezvous::limits::Shortage,
    },
    /// No file of that name was found.
    #[error("cannot start `{command}`: {problem}")]
    CommandNotFound {
        /// The command's first word.
        command: String,
        /// Where was looked, or what is missing.
        problem: &'static str,
    },
    /// The file exists but may not be executed.
    #[error("cannot start `{command}`: {source}; is it a program, and may you execute it?")]
    CommandNotExecutable {
        /// The command's first word.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Any other failure to start a worker.
    #[error("cannot start rank {rank} (`{command}`): {source}")]
    Spawn {
        /// The rank that could not be started.
        rank: Rank,
        /// The command's first word.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A directory or file of `--output-filename` cannot be made.
    #[error("cannot create `{}` for --output-filename: {source}", path.display())]
    OutputFile {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The phases before the workers run took too long.
    #[error(
        "the job did not start within {} s: still in phase `{phase}`; allow more with \
         --start-timeout or HOROVOD_START_TIMEOUT", limit.as_secs()
    )]
    StartTimeout {
        /// The phase that was under way.
        phase: &'static str,
        /// The budget.
        limit: Duration,
    },
    /// The key-value store could not be started or used.
    #[error(transparent)]
    Rendezvous(#[from] hvd_rendezvous::Error),
    /// The function to run could not be read.
    #[error("cannot read the function to run from standard input: {source}")]
    FunctionInput {
        /// The system's answer.
        source: io::Error,
    },
    /// A rank ended well but left no result.
    #[error("rank {rank} ended without delivering the result of the function")]
    ResultMissing {
        /// The rank.
        rank: Rank,
    },
    /// The results could not be handed to the caller.
    #[error("cannot hand over the results on file descriptor {fd}: {source}")]
    Results {
        /// Number of the descriptor.
        fd: i32,
        /// The system's answer.
        source: io::Error,
    },
    /// A running job did not answer a status query.
    #[error("the job of process {supervisor} does not answer: {source}; has it just ended?")]
    NoAnswer {
        /// Its `horovodrun`.
        supervisor: i32,
        /// What went wrong.
        source: io::Error,
    },
    /// The job's key could not be written to any file.
    #[error(
        "cannot keep the job's key in a file: {}; make room there, or set TMPDIR to a directory \
         that you may write to", problems.join("; ")
    )]
    NoKeyFile {
        /// Each file that was tried, with the system's answer.
        problems: Vec<String>,
    },
    /// The operating system refused something the launcher itself needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    /// Wraps a refusal of the system; for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// The exit status that belongs to it: 2 for what was asked wrongly, 126 and 127 as shells use
    /// them for commands, else 1.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NoHosts
            | Self::HostSyntax { .. }
            | Self::DuplicateHost { .. }
            | Self::HostFileEmpty { .. }
            | Self::HostFileSyntax { .. }
            | Self::HostFileField { .. }
            | Self::HostFileDuplicate { .. }
            | Self::TooFewSlots { .. } => 2,
            Self::OnHost { code, .. } => *code,
            Self::CommandNotExecutable { .. } => 126,
            Self::CommandNotFound { .. } => 127,
            _ => 1,
        }
    }
}
