//! `docker run` and `podman run`. Their containers are children of the engine, not ours: the client
//! passes SIGTERM on, but a client that is killed leaves its container behind. So the client's
//! standard input is a pipe that its starter holds open, and a shell inside, which becomes the
//! rank, leaves a process behind that kills it at the end of that input. The engine closes the input
//! of a container whose client is gone (`-i`), so the container ends with the client and with
//! whoever started that.
//!
//! Variables are passed by name (`-e NAME`): values stay out of the command line. Those that
//! describe the host outside, such as `PATH`, stay there.

use super::{
    BareRank, ContainedRank, ContainerHost, ContainerOptions, ContainerRuntime, is_of_rank, word,
};

/// Becomes the command `$@`, with nothing on standard input and a process beside it that kills it
/// when the container's input ends.
const WITH_INPUT: &str = "exec 3<&0 </dev/null; \
     { while read -r _ <&3; do :; done; kill -9 $$; } >/dev/null 2>&1 & \
     exec 3<&-; exec \"$@\"";

/// Variables of the host outside.
const OUTSIDE: [&str; 27] = [
    "CONTAINER_HOST",
    "HOME",
    "HOST",
    "HOSTNAME",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOGNAME",
    "LS_COLORS",
    "MAIL",
    "OLDPWD",
    "PATH",
    "PWD",
    "PYTHONHOME",
    "PYTHONPATH",
    "SHELL",
    "SHLVL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "USER",
    "VIRTUAL_ENV",
    "DISPLAY",
    "PS1",
    "LESSOPEN",
    "LESSCLOSE",
    "_",
];

/// Beginnings of the names of such variables.
const OUTSIDE_BEGINNINGS: [&str; 8] = [
    "BASH_", "CONDA_", "DBUS_", "DOCKER_", "MODULE", "SSH_", "XDG_", "__",
];

/// What starts the rank inside.
pub(super) fn contain(
    options: &ContainerOptions,
    host: &ContainerHost,
    rank: &BareRank<'_>,
) -> ContainedRank {
    let mut command: Vec<String> = [
        host.program.as_str(),
        "run",
        "--rm",
        "-i",
        "--init",
        "--network=host",
        "--ipc=host",
    ]
    .map(str::to_owned)
    .into();
    command.push(format!("--name={}", rank.name));
    command.push("--label=horovod".to_owned());
    command.push(format!("--user={}:{}", host.uid, host.gid));
    if options.runtime == ContainerRuntime::Podman && host.uid != 0 {
        command.push("--userns=keep-id".to_owned());
    }
    command.extend(devices(options.runtime, host));
    for path in [Some(rank.directory), rank.key_file].into_iter().flatten() {
        command.push(format!("--volume={0}:{0}", word(path)));
    }
    command.push(format!("--workdir={}", word(rank.directory)));
    let names = rank.environment.keys().filter_map(|name| name.to_str());
    let passed = names.filter(|name| is_passed(name));
    command.extend(passed.map(|name| format!("--env={name}")));
    command.extend(options.arguments.iter().cloned());
    command.push(bare_name(&options.image).to_owned());
    command.extend(["/bin/sh", "-c", WITH_INPUT, "horovod"].map(str::to_owned));
    command.extend(rank.command.iter().cloned());
    ContainedRank {
        command,
        environment: rank.environment.clone(),
        holds_stdin: true,
    }
}

fn devices(runtime: ContainerRuntime, host: &ContainerHost) -> Vec<String> {
    let mut words = Vec::new();
    if host.has_nvidia {
        words.push(match runtime {
            ContainerRuntime::Podman => "--device=nvidia.com/gpu=all".to_owned(),
            _ => "--gpus=all".to_owned(),
        });
    }
    if host.has_amd {
        words.extend([
            "--device=/dev/kfd".to_owned(),
            "--device=/dev/dri".to_owned(),
        ]);
    }
    words
}

fn is_passed(name: &str) -> bool {
    let is_outside = OUTSIDE.contains(&name)
        || OUTSIDE_BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning));
    // A name with `=` or a blank would mean something else to the client.
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_of_rank(name) || is_plain && !is_outside
}

/// `docker://` is how Apptainer writes the image of a registry.
fn bare_name(image: &str) -> &str {
    image.strip_prefix("docker://").unwrap_or(image)
}
