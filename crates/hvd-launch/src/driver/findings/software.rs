//! Versions: of horovod, of the interpreter, of frameworks.

use super::{HostAnswer, HostFinding, JobFacts, Severity};
use crate::hosts::{
    facts::{Extra, HostFacts},
    ssh::{install, quote},
};

/// All hosts run the release of the driver; between releases nothing is promised.
pub(super) fn version(
    driver: &HostFacts,
    host: &HostAnswer<'_>,
    job: &JobFacts<'_>,
) -> Option<HostFinding> {
    let (ours, theirs) = (&driver.version, &host.facts.version);
    (ours != theirs).then(|| {
        host.finding(
            Severity::Fatal,
            format!("horovod {theirs} is installed there and {ours} here"),
            install(host.ssh, job.wheel, python(host.extra)),
        )
    })
}

/// Compares what the doctor learned with the first host that reported as much: the driver itself
/// may be a machine that trains nothing.
pub(super) fn packages(
    driver: &HostFacts,
    hosts: &[HostAnswer<'_>],
    host: &HostAnswer<'_>,
    job: &JobFacts<'_>,
) -> Vec<HostFinding> {
    let told = |host: &HostAnswer<'_>| host.extra.is_some_and(|extra| extra.interpreter.is_some());
    let Some((reference, theirs)) = hosts.iter().find(|host| told(host)).zip(host.extra) else {
        return Vec::new();
    };
    let Some(ours) = reference.extra else {
        return Vec::new();
    };
    let mut found = Vec::new();
    found.extend(own_horovod(driver, host, theirs, job));
    found.extend(interpreter(reference.name, ours, host, theirs));
    for (package, version) in &ours.packages {
        let there = theirs.packages.get(package);
        let differs = theirs.interpreter.is_some() && there != Some(version);
        if package != "horovod" && differs {
            found.push(package_differs(
                reference.name,
                (package, version),
                host,
                there,
            ));
        }
    }
    found
}

/// The agent may come from another installation than the one the ranks will import.
fn own_horovod(
    driver: &HostFacts,
    host: &HostAnswer<'_>,
    theirs: &Extra,
    job: &JobFacts<'_>,
) -> Option<HostFinding> {
    let version = theirs.packages.get("horovod")?;
    let interpreter = theirs.interpreter.as_ref()?;
    let is_news = *version != driver.version && *version != host.facts.version;
    is_news.then(|| {
        host.finding(
            Severity::Fatal,
            format!(
                "`{}` has horovod {version}, and {} is here",
                interpreter.path, driver.version
            ),
            install(host.ssh, job.wheel, &interpreter.path),
        )
    })
}

fn interpreter(
    name: &str,
    ours: &Extra,
    host: &HostAnswer<'_>,
    theirs: &Extra,
) -> Option<HostFinding> {
    let ours = &ours.interpreter.as_ref()?.version;
    let Some(theirs) = &theirs.interpreter else {
        return Some(host.finding(
            Severity::Warning,
            "no Python was found there",
            "install Python there, or put it into the PATH that the ranks get",
        ));
    };
    // The last number changes with every security update and breaks nothing.
    let release = |version: &str| version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    (release(ours) != release(&theirs.version)).then(|| {
        host.finding(
            Severity::Warning,
            format!("Python {} runs there and {ours} on {name}", theirs.version),
            "use the same Python on all hosts: what one version pickles another may not read",
        )
    })
}

fn package_differs(
    name: &str,
    (package, ours): (&String, &String),
    host: &HostAnswer<'_>,
    there: Option<&String>,
) -> HostFinding {
    let what = match there {
        Some(theirs) => format!("{package} {theirs} is installed there and {ours} on {name}"),
        None => format!("{package} is not installed there; {name} has {ours}"),
    };
    host.finding(Severity::Warning, what, pip(host, package, ours))
}

/// The public index has no builds with a label, as `torch 2.1+cu121`.
fn pip(host: &HostAnswer<'_>, package: &str, version: &str) -> String {
    if version.contains('+') {
        return format!(
            "install the same build, {package} {version}, on {}, from where it comes from here",
            host.name
        );
    }
    let python = quote(python(host.extra));
    host.typed(&format!("{python} -m pip install {package}=={version}"))
}

/// The Python that the ranks there will have, as far as it is known.
fn python(extra: Option<&Extra>) -> &str {
    let interpreter = extra.and_then(|extra| extra.interpreter.as_ref());
    interpreter.map_or("python3", |one| &one.path)
}
