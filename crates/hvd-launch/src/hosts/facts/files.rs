//! The files a job needs on a host: the directory it starts in, the program, the script and its
//! hash. Understands command lines as far as "which file is the script" needs it, no further.

use std::{
    fmt::Write as _,
    fs::{self, File, Metadata},
    io::{self, Read},
    path::Path,
};

use ring::digest::{SHA256, digest};
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::{Question, imports::module_file};

/// Larger files are not scripts, and hashing them would delay the start.
const HASHED: u64 = 16 * 1024 * 1024;

/// Where programs are looked for without `PATH`, as the C library does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The directory that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WorkingDirectory {
    Present,
    Missing,
    SomethingElse,
    /// It cannot be entered; the system's words.
    Closed(String),
}

/// The command's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Program {
    Found { path: String },
    Missing { name: String },
    NotExecutable { path: String },
}

/// The script the command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Script {
    /// As in the command.
    pub(crate) name: String,
    pub(crate) content: Content,
}

/// What is in a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Content {
    Missing,
    /// The hash in hexadecimal digits.
    Sha256(String),
    /// It exists but is not hashed: a directory, or too large.
    Unhashed,
    /// It exists but cannot be read; the system's words.
    Unreadable(String),
}

pub(super) fn directory(path: &str) -> WorkingDirectory {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => WorkingDirectory::SomethingElse,
        Ok(_) => match access(path, Access::EXEC_OK) {
            Ok(()) => WorkingDirectory::Present,
            Err(error) => WorkingDirectory::Closed(io::Error::from(error).to_string()),
        },
        Err(error) if is_absent(&error) => WorkingDirectory::Missing,
        Err(error) => WorkingDirectory::Closed(error.to_string()),
    }
}

/// Where the command's program is, found as `execvp` finds it.
pub(super) fn program(question: &Question) -> Option<Program> {
    let name = question.command.first()?;
    if name.contains('/') {
        return Some(judge(name, &question.resolve(name)));
    }
    let path = question.variable("PATH").unwrap_or(DEFAULT_PATH);
    let found = path
        .split(':')
        .map(|entry| judge(name, &question.resolve(entry).join(name)));
    let mut best = Program::Missing { name: name.clone() };
    for candidate in found {
        match candidate {
            Program::Found { .. } => return Some(candidate),
            Program::NotExecutable { .. } => best = candidate,
            Program::Missing { .. } => {}
        }
    }
    Some(best)
}

fn judge(name: &str, path: &Path) -> Program {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let shown = path.to_string_lossy().into_owned();
    if !is_file {
        Program::Missing {
            name: name.to_owned(),
        }
    } else if access(path, Access::EXEC_OK).is_ok() {
        Program::Found { path: shown }
    } else {
        Program::NotExecutable { path: shown }
    }
}

/// The script, if the command is one or is a Python that runs one.
pub(super) fn script(question: &Question) -> Option<Script> {
    let (program, _) = question.command.split_first()?;
    let Some(run) = run(question) else {
        let path = question.resolve(program);
        // Binaries of the system differ from host to host, and may.
        let is_binary = program.starts_with('/') && !begins_with_interpreter(&path);
        let is_script = program.contains('/') && !is_python(program) && !is_binary;
        return is_script.then(|| Script {
            name: program.clone(),
            content: content(&path),
        });
    };
    match run {
        Run::File(name) => Some(Script {
            content: content(&question.resolve(&name)),
            name,
        }),
        Run::Module(module) => {
            let path = module_file(question, &module)?;
            let below = path.strip_prefix(&question.directory).unwrap_or(&path);
            Some(Script {
                name: below.to_string_lossy().into_owned(),
                content: content(&path),
            })
        }
    }
}

/// What a Python runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Run {
    /// A file, as in the command.
    File(String),
    /// A module, as after `-m`.
    Module(String),
}

/// What the command's Python runs, if it is one and runs a file or a module.
pub(super) fn run(question: &Question) -> Option<Run> {
    let (program, arguments) = question.command.split_first()?;
    is_python(program).then(|| python_run(arguments)).flatten()
}

/// Whether a program is some Python interpreter, by its name.
pub(super) fn is_python(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let Some(version) = name.strip_prefix("python") else {
        return false;
    };
    version
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The first argument of a Python that is no option, unless an option says what to run instead.
fn python_run(arguments: &[String]) -> Option<Run> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(letters) = argument.strip_prefix('-') else {
            return Some(Run::File(argument.clone()));
        };
        if letters.is_empty() {
            return None;
        }
        if letters.starts_with('-') {
            if letters == "-check-hash-based-pycs" {
                arguments.next();
            }
            continue;
        }
        let Some(at) = letters.find(['c', 'm', 'W', 'X']) else {
            continue;
        };
        let (option, value) = letters[at..].split_at(1);
        let value = match value {
            "" => arguments.next().cloned()?,
            attached => attached.to_owned(),
        };
        match option {
            "c" => return None,
            "m" => return Some(Run::Module(value)),
            _ => {}
        }
    }
    None
}

fn begins_with_interpreter(path: &Path) -> bool {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let mut beginning = [0; 2];
    is_file && File::open(path).is_ok_and(|mut file| file.read_exact(&mut beginning).is_ok()) && {
        beginning == *b"#!"
    }
}

pub(super) fn content(path: &Path) -> Content {
    match fs::metadata(path) {
        Err(error) if is_absent(&error) => Content::Missing,
        Err(error) => Content::Unreadable(error.to_string()),
        Ok(found) if !is_hashed(&found) => Content::Unhashed,
        Ok(_) => match hash(path) {
            Ok(digits) => Content::Sha256(digits),
            Err(error) => Content::Unreadable(error.to_string()),
        },
    }
}

/// Reading a pipe or a device could last for ever.
fn is_hashed(found: &Metadata) -> bool {
    found.is_file() && found.len() <= HASHED
}

fn hash(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(HASHED).read_to_end(&mut bytes)?;
    let mut digits = String::with_capacity(64);
    for byte in digest(&SHA256, &bytes).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests;
