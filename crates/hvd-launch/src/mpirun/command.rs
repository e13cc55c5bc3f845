//! The `mpirun` command line of a job: a pure function of the MPI and the job. One file for each
//! kind of options: `open_mpi.rs` for Open MPI and Spectrum MPI, `hydra.rs` for MPICH and Intel MPI.
//! The order of the parts is upstream Horovod's. Nothing secret is in it: command lines are public.

use super::{
    MpiOptions,
    environment::{self, Variables},
    hydra,
    implementation::Implementation,
    open_mpi, words,
};
use crate::{
    error::{Error, Result},
    hosts::{
        Host,
        ssh::{HostKeys, SshOptions, quote},
    },
    spec::JobSpec,
};

/// A command and the environment it runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// All of its environment.
    pub(crate) environment: Variables,
}

impl CommandLine {
    /// The words as a shell takes them.
    pub(crate) fn text(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quote(word)).collect();
        words.join(" ")
    }
}

/// The command line that runs `spec`.
pub(crate) fn compose(
    implementation: Implementation,
    spec: &JobSpec,
    options: &MpiOptions,
) -> Result<CommandLine> {
    let mut environment = environment::of_mpirun(spec);
    let mut line = vec!["mpirun".to_owned()];
    line.extend(match implementation {
        Implementation::OpenMpi | Implementation::OpenMpiWithPrrte | Implementation::Spectrum => {
            open_mpi::options(implementation, spec, options, &environment)?
        }
        Implementation::Mpich | Implementation::Intel => {
            hydra::options(implementation, spec, &mut environment)?
        }
    });
    line.extend(typed("--mpi-args", options.arguments.as_deref())?);
    line.extend(spec.command.iter().cloned());
    Ok(CommandLine {
        words: line,
        environment,
    })
}

/// The words of an option whose value is handed on.
pub(super) fn typed(option: &'static str, text: Option<&str>) -> Result<Vec<String>> {
    let text = text.unwrap_or_default();
    words::split(text).map_err(|words::OpenQuote| Error::OpenQuote {
        option,
        text: text.to_owned(),
    })
}

/// Words separated by blanks.
pub(super) fn spoken(text: &str) -> impl Iterator<Item = String> {
    text.split(' ').map(str::to_owned)
}

/// The hosts that have slots. A user or an IPv6 address cannot be said to `mpirun`.
pub(super) fn hosts(spec: &JobSpec) -> Result<Vec<&Host>> {
    let used: Vec<&Host> = spec.hosts.iter().filter(|host| host.slots > 0).collect();
    for host in &used {
        let name = host.hostname();
        let remedy = if host.user().is_some() {
            format!("write `{name}`, and set its `User` in ~/.ssh/config")
        } else if name.contains(':') {
            "give it a name, e.g. in /etc/hosts, and write that".to_owned()
        } else {
            continue;
        };
        return Err(Error::MpirunHost {
            host: host.to_string(),
            remedy,
        });
    }
    Ok(used)
}

/// What `mpirun` has to add to its `ssh`; nothing if ssh's own configuration is enough. `mpirun`
/// splits it at blanks, whatever is quoted.
pub(super) fn ssh_arguments(options: &SshOptions) -> Result<Option<String>> {
    let mut words = Vec::new();
    if let Some(port) = options.port {
        words.push(format!("-p {port}"));
    }
    if let Some(identity) = &options.identity {
        let file = identity.display().to_string();
        if file.contains(char::is_whitespace) {
            return Err(Error::MpirunIdentity { file });
        }
        words.push(format!("-i {file}"));
    }
    // What is accepted by default has been asked for and is known when `mpirun` runs.
    words.extend(match options.host_keys {
        HostKeys::AcceptNew => None,
        HostKeys::Strict => Some("-o StrictHostKeyChecking=yes".to_owned()),
        HostKeys::Unchecked => {
            Some("-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null".to_owned())
        }
    });
    Ok((!words.is_empty()).then(|| words.join(" ")))
}
