//! Files the job needs on a host: directory, program, script.

use std::path::{Component, Path, PathBuf};

use super::{HostAnswer, HostFinding, JobFacts, Severity};
use crate::hosts::{
    facts::{Content, HostFacts, Module, Program, Script, WorkingDirectory},
    ssh::{quote, run_there},
};

/// Most modules that are reported one by one.
const LISTED_MODULES: usize = 5;

pub(super) fn judge(
    driver: &HostFacts,
    hosts: &[HostAnswer<'_>],
    host: &HostAnswer<'_>,
    job: &JobFacts<'_>,
) -> Vec<HostFinding> {
    // Without its directory a host cannot have the files in it either; one finding is enough.
    if let Some(finding) = directory(host, job) {
        return vec![finding];
    }
    let mut found = Vec::new();
    found.extend(program(host));
    found.extend(script(driver, hosts, host, job));
    found.extend(modules(driver, host, job));
    found
}

fn directory(host: &HostAnswer<'_>, job: &JobFacts<'_>) -> Option<HostFinding> {
    let (path, name) = (job.directory, host.name);
    let (what, remedy) = match &host.facts.directory {
        WorkingDirectory::Present => return None,
        WorkingDirectory::Missing => (
            format!("the working directory `{path}` does not exist there"),
            format!(
                "mount it there as it is here, or make it: {}",
                host.typed(&format!("mkdir -p {}", quote(path)))
            ),
        ),
        WorkingDirectory::SomethingElse => (
            format!("the working directory `{path}` is a file there"),
            format!("move that file away and mount or make the directory on {name}"),
        ),
        WorkingDirectory::Closed(problem) => (
            format!("the working directory `{path}` cannot be entered there: {problem}"),
            format!(
                "let {} enter it, whose rights are shown by: {}",
                user(host.facts),
                host.typed(&format!("ls -ld {}", quote(path)))
            ),
        ),
    };
    Some(host.finding(Severity::Fatal, what, remedy))
}

fn user(facts: &HostFacts) -> String {
    match &facts.user {
        Some(name) => format!("user {name}"),
        None => format!("user {}", facts.uid),
    }
}

fn program(host: &HostAnswer<'_>) -> Option<HostFinding> {
    let (what, remedy) = match host.facts.program.as_ref()? {
        Program::Found { .. } => return None,
        Program::Missing { name } if name.contains('/') => (
            format!("the command `{name}` does not exist there"),
            format!("install it on {}, or give the path it has there", host.name),
        ),
        Program::Missing { name } => (
            format!("the command `{name}` is not in the PATH of the ranks there"),
            format!(
                "install it on {}, or give its full path instead of `{name}`",
                host.name
            ),
        ),
        Program::NotExecutable { path } => (
            format!("`{path}` may not be executed there"),
            host.typed(&format!("chmod +x {}", quote(path))),
        ),
    };
    Some(host.finding(Severity::Fatal, what, remedy))
}

fn script(
    driver: &HostFacts,
    hosts: &[HostAnswer<'_>],
    host: &HostAnswer<'_>,
    job: &JobFacts<'_>,
) -> Option<HostFinding> {
    let theirs = host.facts.script.as_ref()?;
    match &theirs.content {
        Content::Missing if Some(&theirs.name) == program_name(host) => None,
        Content::Missing => Some(host.finding(
            Severity::Fatal,
            format!("the script `{}` does not exist there", theirs.name),
            if is_missing_here(driver) {
                "look at the path in the command: it does not exist here either".to_owned()
            } else {
                copy(host, theirs, job)
            },
        )),
        Content::Unreadable(problem) => Some(host.finding(
            Severity::Fatal,
            format!(
                "the script `{}` cannot be read there: {problem}",
                theirs.name
            ),
            format!("let {} read it on {}", user(host.facts), host.name),
        )),
        Content::Sha256(hash) => {
            let (whose, reference) = reference(driver, hosts)?;
            (hash != reference).then(|| {
                host.finding(
                    Severity::Warning,
                    format!(
                        "the script `{}` is another one there: {} instead of {} {whose}",
                        theirs.name,
                        first_digits(hash),
                        first_digits(reference)
                    ),
                    copy(host, theirs, job),
                )
            })
        }
        Content::Unhashed => None,
    }
}

/// The user's own modules, as far as the files that import them are the same here and there.
fn modules(driver: &HostFacts, host: &HostAnswer<'_>, job: &JobFacts<'_>) -> Vec<HostFinding> {
    let different = driver
        .modules
        .iter()
        .filter_map(|ours| Some((ours, difference(driver, host.facts, ours)?)));
    let finding = |(ours, what): (&Module, String)| {
        let script = Script {
            name: ours.name.clone(),
            content: Content::Missing,
        };
        host.finding(Severity::Warning, what, copy(host, &script, job))
    };
    let mut found: Vec<HostFinding> = different.map(finding).collect();
    if found.len() > LISTED_MODULES {
        let more = found.len() - LISTED_MODULES;
        found.truncate(LISTED_MODULES);
        found.push(host.finding(
            Severity::Warning,
            format!("{more} more files that the script imports are missing or different there"),
            format!(
                "share `{}` between the hosts, or copy all of it",
                job.directory
            ),
        ));
    }
    found
}

/// What is different about a module there, if anything is.
fn difference(driver: &HostFacts, there: &HostFacts, ours: &Module) -> Option<String> {
    let theirs = there.modules.iter().find(|module| module.name == ours.name);
    let name = &ours.name;
    let Some(importer) = &ours.imported_by else {
        // If it is there but different, the script is.
        let missing = format!("`{name}`, which `python -m` runs here, does not exist there");
        return theirs.is_none().then_some(missing);
    };
    match theirs {
        Some(theirs) if theirs.hash == ours.hash => None,
        Some(theirs) => Some(format!(
            "`{name}`, which `{importer}` imports, is another one there: {} instead of {} here",
            first_digits(&theirs.hash),
            first_digits(&ours.hash)
        )),
        None => {
            // Another version of that file may not import it at all.
            let here = hash_of(driver, importer)?;
            let is_same = hash_of(there, importer) == Some(here);
            is_same.then(|| format!("`{name}`, which `{importer}` imports, does not exist there"))
        }
    }
}

/// The hash of the script or of a module.
fn hash_of<'a>(facts: &'a HostFacts, name: &str) -> Option<&'a String> {
    let module = facts.modules.iter().find(|module| module.name == name);
    let script = facts.script.as_ref().filter(|script| script.name == name);
    match (module, script.map(|script| &script.content)) {
        (Some(module), _) => Some(&module.hash),
        (None, Some(Content::Sha256(hash))) => Some(hash),
        _ => None,
    }
}

/// Its absence is found as a missing program already.
fn program_name<'a>(host: &HostAnswer<'a>) -> Option<&'a String> {
    match host.facts.program.as_ref()? {
        Program::Missing { name } => Some(name),
        _ => None,
    }
}

/// The driver's script, or that of the first host that has one.
fn reference<'a>(driver: &'a HostFacts, hosts: &[HostAnswer<'a>]) -> Option<(String, &'a String)> {
    let hash = |facts: &'a HostFacts| match facts.script.as_ref()?.content {
        Content::Sha256(ref hash) => Some(hash),
        _ => None,
    };
    if let Some(own) = hash(driver) {
        return Some(("here".to_owned(), own));
    }
    let mut others = hosts.iter();
    others.find_map(|host| Some((format!("on {}", host.name), hash(host.facts)?)))
}

fn is_missing_here(driver: &HostFacts) -> bool {
    let script = driver.script.as_ref();
    script.is_some_and(|script| script.content == Content::Missing)
}

/// By `tar`, which every host has that has a shell; `rsync` is rare in containers, and `scp` needs
/// a server of its own over there.
fn copy(host: &HostAnswer<'_>, script: &Script, job: &JobFacts<'_>) -> String {
    let path = absolute(&Path::new(job.directory).join(&script.name));
    let path = path.to_string_lossy();
    let Some(ssh) = host.ssh else {
        return format!(
            "share the directory between the hosts, or copy `{path}` to {}",
            host.name
        );
    };
    let inside = quote(path.trim_start_matches('/'));
    format!(
        "share the directory between the hosts, or copy it: tar -C / -cf - {inside} | {}",
        run_there(ssh, "tar -C / -xf -")
    )
}

/// The path without `.` and `..`, which tar does not take.
fn absolute(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    whole
}

fn first_digits(hash: &str) -> String {
    hash.chars().take(8).collect()
}
