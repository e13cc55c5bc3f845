//! Facts that only other programs know: interpreter, packages, GPUs, MPI. For `horovodrun doctor`,
//! which has the time; a job's start does not wait for them. Frameworks are never imported, only
//! their installation records are read.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    Question,
    files::{self, Program, WorkingDirectory},
};
use crate::process::{ReapedBy, subprocess};

/// How long each program may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Prints one line of JSON: see [`PythonAnswer`]. The current directory is taken off the path, so
/// that no file of the user's shadows a module. One package goes by several names.
const PYTHON: &str = r#"
import sys
sys.path = [entry for entry in sys.path if entry]
import json
from importlib import metadata
names = {"tensorflow": ["tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"],
         "mxnet": ["mxnet", "mxnet-cu112", "mxnet-cu102"]}
packages = {}
for package in ["horovod", "torch", "tensorflow", "keras", "mxnet", "jax", "numpy"]:
    for name in names.get(package, [package]):
        try:
            packages.setdefault(package, metadata.version(name))
        except Exception:
            pass
version = ".".join(map(str, sys.version_info[:3]))
print(json.dumps({"path": sys.executable, "version": version, "packages": packages}))
"#;

/// What other programs say about a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extra {
    /// The Python the command uses, or the first one in `PATH`.
    pub(crate) interpreter: Option<Interpreter>,
    /// Versions of horovod, the frameworks and numpy, as far as they are installed.
    pub(crate) packages: BTreeMap<String, String>,
    /// One name for each GPU.
    pub(crate) gpus: Vec<String>,
    /// What `mpirun` calls itself.
    pub(crate) mpi: Option<String>,
}

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interpreter {
    pub(crate) path: String,
    pub(crate) version: String,
}

#[derive(Deserialize)]
struct PythonAnswer {
    path: String,
    version: String,
    packages: BTreeMap<String, String>,
}

/// Asks the programs of this host; takes as long as the slowest, at most some five seconds.
pub(crate) fn thorough(question: &Question, reaped_by: &ReapedBy) -> Extra {
    let programs = Programs {
        question,
        reaped_by,
    };
    let (python, gpus, mpi) = thread::scope(|scope| {
        let ask = |name: &str| thread::Builder::new().name(format!("hvd-look-{name}"));
        let gpus = ask("gpus").spawn_scoped(scope, || programs.gpus());
        let mpi = ask("mpi").spawn_scoped(scope, || programs.mpi());
        let python = programs.python();
        (python, joined(gpus.ok()), joined(mpi.ok()))
    });
    let (interpreter, packages) = python.map_or_else(Default::default, |answer| {
        let PythonAnswer {
            path,
            version,
            packages,
        } = answer;
        (Some(Interpreter { path, version }), packages)
    });
    Extra {
        interpreter,
        packages,
        gpus,
        mpi,
    }
}

fn joined<T: Default>(thread: Option<ScopedJoinHandle<'_, T>>) -> T {
    let answer = thread.and_then(|thread| thread.join().ok());
    answer.unwrap_or_default()
}

/// The programs that ranks would find.
#[derive(Clone, Copy)]
struct Programs<'a> {
    question: &'a Question,
    reaped_by: &'a ReapedBy,
}

impl Programs<'_> {
    fn python(self) -> Option<PythonAnswer> {
        let own = self.question.command.first().map(String::as_str);
        let own = own.filter(|program| files::is_python(program));
        let mut candidates = own.into_iter().chain(["python3", "python"]);
        candidates.find_map(|program| {
            let text = self.ask(program, &["-c", PYTHON])?;
            // The start of an interpreter may print something of its own.
            let mut lines = text.lines().rev();
            lines.find_map(|line| serde_json::from_str(line).ok())
        })
    }

    fn gpus(self) -> Vec<String> {
        match self.ask("nvidia-smi", &["-L"]) {
            Some(text) => text.lines().filter_map(gpu_name).collect(),
            None => gpus_below(Path::new("/proc/driver/nvidia/gpus")),
        }
    }

    fn mpi(self) -> Option<String> {
        let text = self.ask("mpirun", &["--version"])?;
        let mut lines = text.lines().map(str::trim);
        lines.find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// What a program of the ranks' `PATH` prints, run as the ranks would be.
    fn ask(self, program: &str, arguments: &[&str]) -> Option<String> {
        let question = self.question;
        let lookup = Question {
            command: vec![program.to_owned()],
            ..question.clone()
        };
        let Some(Program::Found { path }) = files::program(&lookup) else {
            return None;
        };
        let environment = question.environment.iter();
        let mut command = Command::new(path);
        command
            .args(arguments)
            .env_clear()
            .envs(environment.map(|(name, value)| (name, value)));
        if files::directory(&question.directory) == WorkingDirectory::Present {
            command.current_dir(&question.directory);
        }
        match subprocess::output(&mut command, TIMEOUT, self.reaped_by) {
            Ok(text) => Some(text),
            Err(error) => {
                tracing::debug!(program, %error, "a program did not tell about this host");
                None
            }
        }
    }
}

/// `GPU 0: Some Name (UUID: GPU-...)` without number and id.
fn gpu_name(line: &str) -> Option<String> {
    let (_, name) = line.strip_prefix("GPU ")?.split_once(": ")?;
    let name = name.split(" (UUID").next().unwrap_or(name);
    Some(name.trim().to_owned())
}

/// One directory for each GPU, with a file that names it.
fn gpus_below(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let models = entries.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("information")).ok()?;
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix("Model:")?.trim().to_owned()))
    });
    models.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    /// A host whose programs are shell scripts.
    fn host(programs: &[(&str, &str)]) -> (TempDir, Question) {
        let home = TempDir::new().unwrap();
        for (name, script) in programs {
            let path = home.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let directory = home.path().to_str().unwrap().to_owned();
        let question = Question {
            environment: vec![("PATH".into(), directory.clone())],
            directory,
            command: vec!["python".into(), "train.py".into()],
        };
        (home, question)
    }

    #[test]
    fn programs_are_asked_and_understood() {
        let answer = r#"{"path": "/x/python", "version": "3.9.1", "packages": {"torch": "2.1"}}"#;
        let python = format!("echo welcome\necho '{answer}'");
        let smi = "echo 'GPU 0: Fast One (UUID: GPU-1)'; echo 'GPU 1: Fast Two (UUID: GPU-2)'";
        let mpi = "echo; echo 'mpirun (Open MPI) 4.1.4'; echo Report bugs";
        let (_home, question) = host(&[
            ("python", python.as_str()),
            ("nvidia-smi", smi),
            ("mpirun", mpi),
        ]);
        let extra = thorough(&question, &ReapedBy::Starter);
        let interpreter = extra.interpreter.unwrap();
        assert_eq!(
            (&*interpreter.path, &*interpreter.version),
            ("/x/python", "3.9.1")
        );
        assert_eq!(extra.packages["torch"], "2.1");
        assert_eq!(extra.gpus, ["Fast One", "Fast Two"]);
        assert_eq!(extra.mpi.as_deref(), Some("mpirun (Open MPI) 4.1.4"));
    }

    #[test]
    fn a_host_without_programs_has_nothing_extra() {
        let (_home, question) = host(&[("python", "echo broken"), ("mpirun", "exit 1")]);
        let extra = thorough(&question, &ReapedBy::Starter);
        assert_eq!((extra.interpreter, extra.mpi), (None, None));
        assert!(extra.packages.is_empty());
    }

    #[test]
    fn gpus_are_found_without_their_tool() {
        let driver = TempDir::new().unwrap();
        for (name, text) in [("0000:01:00.0", "Model: \t Fast\nIRQ: 3\n"), ("bad", "x\n")] {
            let directory = driver.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("information"), text).unwrap();
        }
        assert_eq!(gpus_below(driver.path()), ["Fast"]);
        assert!(gpus_below(Path::new("/no/such")).is_empty());
    }

    #[test]
    fn a_real_python_answers_if_there_is_one() {
        let (_home, mut question) = host(&[]);
        question.environment = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
        // Must not be imported by the question.
        fs::write(Path::new(&question.directory).join("json.py"), "raise 1").unwrap();
        let has_python = ["/usr/local/bin/python3", "/usr/bin/python3"]
            .iter()
            .any(|path| Path::new(path).exists());
        assert_eq!(
            thorough(&question, &ReapedBy::Starter)
                .interpreter
                .is_some(),
            has_python
        );
    }
}
