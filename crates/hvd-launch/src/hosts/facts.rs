//! What a host says about itself: everything that decides whether ranks can run there, gathered in
//! a few milliseconds from the kernel and the file system, without starting anything.
//!
//! Only looks; what is wrong is decided by [`crate::driver`], which sees all hosts. A file system
//! that hangs makes [`gather`] hang, so its caller keeps a deadline of its own.

mod extra;
mod files;
mod imports;
mod machine;

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) use self::extra::Interpreter;
pub(crate) use self::{
    extra::{Extra, thorough},
    files::{Content, Program, Script, WorkingDirectory},
    imports::Module,
    machine::{Container, DiskSpace, MachineMemory, ResourceLimits},
};
use super::interfaces::{Interface, interfaces};

/// Whether this process runs in a container.
pub(crate) fn is_container() -> bool {
    machine::container(std::path::Path::new("/")) != Container::None
}

/// What is asked of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// The directory the ranks shall start in.
    pub(crate) directory: String,
    /// The command of the ranks, program first; may be empty if nothing shall be run.
    pub(crate) command: Vec<String>,
    /// The environment the ranks will get there.
    pub(crate) environment: Vec<(String, String)>,
}

impl Question {
    /// The value of a variable of the ranks; the last one counts.
    fn variable(&self, name: &str) -> Option<&str> {
        let mut values = self.environment.iter().rev();
        values
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    fn temporary(&self) -> &str {
        self.variable("TMPDIR")
            .filter(|value| !value.is_empty())
            .unwrap_or("/tmp")
    }

    /// A path as a rank would understand it.
    fn resolve(&self, path: &str) -> PathBuf {
        PathBuf::from(&self.directory).join(path)
    }
}

/// What a host knows about itself. An unknown is `None`, never a guess.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostFacts {
    pub(crate) hostname: String,
    /// Equal for two names of one machine, different for two network namespaces or containers of
    /// one kernel; empty if the kernel does not say, and then equal to nothing.
    pub(crate) identity: String,
    /// Version of horovod that answered.
    pub(crate) version: String,
    pub(crate) interfaces: Vec<Interface>,
    /// The directory that was asked for.
    pub(crate) directory: WorkingDirectory,
    /// The command's program; `None` if no command was asked for.
    pub(crate) program: Option<Program>,
    /// The script the command runs, if it is one.
    pub(crate) script: Option<Script>,
    /// The files of the user's own that it imports.
    pub(crate) modules: Vec<Module>,
    /// The clock on the wall, in seconds since 1970.
    pub(crate) clock: f64,
    /// Processors a rank may use here: what affinity and quota leave.
    pub(crate) cpus: usize,
    pub(crate) cpu_model: Option<String>,
    pub(crate) memory: Option<MachineMemory>,
    /// The file system of `/dev/shm`.
    pub(crate) shared_memory: Option<DiskSpace>,
    pub(crate) limits: ResourceLimits,
    /// The file system of the directory that was asked for.
    pub(crate) disk: Option<DiskSpace>,
    /// `TMPDIR` of the ranks, or `/tmp`.
    pub(crate) temporary: String,
    /// The file system of that.
    pub(crate) temporary_disk: Option<DiskSpace>,
    pub(crate) container: Container,
    pub(crate) user: Option<String>,
    pub(crate) uid: u32,
    /// Release of the kernel.
    pub(crate) kernel: String,
}

/// Looks at this host. Call it before this process raises its own limits, or they are taken for
/// those of the ranks.
pub(crate) fn gather(question: &Question) -> HostFacts {
    let temporary = question.temporary().to_owned();
    let uid = rustix::process::geteuid().as_raw();
    HostFacts {
        hostname: machine::hostname(),
        identity: machine::identity(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        interfaces: interfaces().unwrap_or_default(),
        directory: files::directory(&question.directory),
        program: files::program(question),
        script: files::script(question),
        modules: imports::modules(question),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_model: machine::cpu_model(),
        memory: machine::memory(),
        shared_memory: machine::space("/dev/shm"),
        limits: machine::limits(),
        disk: machine::space(&question.directory),
        temporary_disk: machine::space(&temporary),
        temporary,
        container: machine::container("/".as_ref()),
        user: machine::user(uid).or_else(|| question.variable("USER").map(str::to_owned)),
        uid,
        kernel: machine::kernel(),
        // Last, so that it is as fresh as can be when the answer leaves.
        clock: now(),
    }
}

/// The clock on the wall, in seconds since 1970; 0 before that.
pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::process::ReapedBy;

    #[test]
    fn this_host_is_described_quickly_and_survives_the_way_to_the_driver() {
        let directory = tempfile::tempdir().unwrap();
        let question = Question {
            directory: directory.path().to_str().unwrap().to_owned(),
            command: vec!["sh".into(), "-c".into(), "true".into()],
            environment: vec![("PATH".into(), "/nowhere:/usr/bin:/bin".into())],
        };
        let began = Instant::now();
        let facts = gather(&question);
        let took = began.elapsed();

        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(facts.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(facts.directory, WorkingDirectory::Present);
        assert!(matches!(&facts.program, Some(Program::Found { path }) if path.ends_with("/sh")));
        assert_eq!(facts.script, None);
        assert_eq!(facts.temporary, "/tmp");
        assert!(!facts.hostname.is_empty() && facts.identity.contains(&facts.hostname));
        assert!(facts.cpus > 0 && !facts.interfaces.is_empty());
        assert!((facts.clock - now()).abs() < 5.0);
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&text).unwrap(), facts);
    }

    #[test]
    fn what_programs_say_survives_the_way_to_the_driver() {
        let mut question = Question::default();
        let path = ("PATH".to_owned(), "/no/such".to_owned());
        question.environment.push(path);
        let extra = thorough(&question, &ReapedBy::Starter);
        assert_eq!((&extra.interpreter, &extra.mpi), (&None, &None));
        let text = serde_json::to_string(&extra).unwrap();
        assert_eq!(serde_json::from_str::<Extra>(&text).unwrap(), extra);
    }

    #[test]
    fn the_last_value_of_a_variable_counts() {
        let mut question = Question::default();
        assert_eq!(question.temporary(), "/tmp");
        for value in ["/scratch", "/fast"] {
            let variable = ("TMPDIR".to_owned(), value.to_owned());
            question.environment.push(variable);
        }
        assert_eq!(question.temporary(), "/fast");
    }
}
