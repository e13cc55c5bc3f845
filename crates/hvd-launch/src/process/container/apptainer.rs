//! `apptainer exec`, and `singularity exec` of Singularity 3 and 4. Such a container has the host's
//! network, process numbers and, unless it was told otherwise, environment; it is a child like any
//! other and ends with its processes.
//!
//! Variables of the rank also go by `APPTAINERENV_`, which `--cleanenv` lets through, be it in the
//! user's arguments or in the host's configuration.

use std::ffi::OsString;

use super::{BareRank, ContainedRank, ContainerHost, ContainerOptions, is_of_rank, word};

/// What starts the rank inside.
pub(super) fn contain(
    options: &ContainerOptions,
    host: &ContainerHost,
    rank: &BareRank<'_>,
) -> ContainedRank {
    let mut command = vec![host.program.clone(), "exec".to_owned()];
    if host.has_nvidia {
        command.push("--nv".to_owned());
    }
    if host.has_amd {
        command.push("--rocm".to_owned());
    }
    for path in [Some(rank.directory), rank.key_file].into_iter().flatten() {
        command.extend(["--bind".to_owned(), word(path)]);
    }
    command.extend(["--pwd".to_owned(), word(rank.directory)]);
    command.extend(options.arguments.iter().cloned());
    command.push(options.image.clone());
    command.extend(rank.command.iter().cloned());
    let mut environment = rank.environment.clone();
    for (name, value) in rank.environment {
        let Some(name) = name.to_str().filter(|name| is_of_rank(name)) else {
            continue;
        };
        for prefix in prefixes(&host.program) {
            environment.insert(OsString::from(format!("{prefix}{name}")), value.clone());
        }
    }
    ContainedRank {
        command,
        environment,
        holds_stdin: false,
    }
}

/// What precedes the names of variables for the container. A `singularity` may be an Apptainer.
fn prefixes(program: &str) -> &'static [&'static str] {
    if program.ends_with("apptainer") {
        &["APPTAINERENV_"]
    } else {
        &["APPTAINERENV_", "SINGULARITYENV_"]
    }
}
