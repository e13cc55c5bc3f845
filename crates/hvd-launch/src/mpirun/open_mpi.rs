//! The options of Open MPI's `mpirun`, and of Spectrum MPI, which is made from it.
//!
//! Open MPI 5 has another `mpirun`, of PRRTE: options of several letters have two dashes, the ones
//! about output are one option, and the launcher's own parameters have a prefix and other names.

use super::{
    MpiOptions,
    command::{hosts, spoken, ssh_arguments, typed},
    environment::{Variables, exported},
    implementation::Implementation,
};
use crate::{
    error::Result,
    spec::{JobSpec, Stamp},
};

/// From so many hosts on, `mpirun` starts all its daemons by itself and at once, because a tree of
/// `ssh` may end at hosts that cannot log in to each other.
const MANY_HOSTS: usize = 64;

/// Everything between `mpirun` and the user's own arguments.
pub(super) fn options(
    implementation: Implementation,
    spec: &JobSpec,
    options: &MpiOptions,
    environment: &Variables,
) -> Result<Vec<String>> {
    let line = Dialect { implementation };
    let hosts = hosts(spec)?;
    let listed: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut words = line.output_begin(spec);
    words.extend(spoken(&format!("-np {} -H", spec.placements.len())));
    words.push(listed.join(","));
    words.extend(match &options.binding {
        Some(binding) => typed("--binding-args", Some(binding))?,
        None => spoken(line.binding()).collect(),
    });
    words.extend(line.transport(options));
    if hosts.len() >= MANY_HOSTS {
        words.extend(line.launcher("no_tree_spawn", "true"));
        words.extend(line.launcher("num_concurrent", &hosts.len().to_string()));
    }
    words.extend(line.timestamps(spec));
    if let Some(arguments) = ssh_arguments(&spec.remote.ssh)? {
        words.extend(line.launcher("args", &arguments));
    }
    let interfaces = spec.remote.interfaces.join(",");
    if !interfaces.is_empty() {
        words.extend(line.parameter("btl_tcp_if_include", &interfaces));
        words.extend(["-x".to_owned(), format!("NCCL_SOCKET_IFNAME={interfaces}")]);
    }
    words.extend(line.output_files(spec));
    for variable in exported(environment) {
        // Open MPI takes a variable once; the value above is the one that was asked for.
        if interfaces.is_empty() || variable != "NCCL_SOCKET_IFNAME" {
            words.extend(["-x".to_owned(), variable]);
        }
    }
    Ok(words)
}

/// How one of the three says things.
#[derive(Clone, Copy)]
struct Dialect {
    implementation: Implementation,
}

impl Dialect {
    fn has_prrte(self) -> bool {
        self.implementation == Implementation::OpenMpiWithPrrte
    }

    /// Root is allowed, as in containers, and each line of output says its rank.
    fn output_begin(self, spec: &JobSpec) -> Vec<String> {
        let tagged = if self.has_prrte() {
            vec!["--output".to_owned(), output_directives(spec)]
        } else {
            vec!["--tag-output".to_owned()]
        };
        std::iter::once("--allow-run-as-root".to_owned())
            .chain(tagged)
            .collect()
    }

    fn timestamps(self, spec: &JobSpec) -> Option<String> {
        let is_asked = spec.output.stamp == Stamp::LocalTime && !self.has_prrte();
        is_asked.then(|| "--timestamp-output".to_owned())
    }

    fn output_files(self, spec: &JobSpec) -> Vec<String> {
        match &spec.output.directory {
            Some(directory) if !self.has_prrte() => {
                vec![
                    "--output-filename".to_owned(),
                    directory.display().to_string(),
                ]
            }
            _ => Vec::new(),
        }
    }

    fn binding(self) -> &'static str {
        match self.implementation {
            Implementation::OpenMpiWithPrrte => "--bind-to none --map-by slot",
            Implementation::Spectrum => "-bind-to socket -map-by socket -rank-by core",
            _ => "-bind-to none -map-by slot",
        }
    }

    /// How MPI itself, if a rank uses it, sends messages.
    fn transport(self, options: &MpiOptions) -> Vec<String> {
        if self.implementation == Implementation::Spectrum {
            return options.tcp.then(|| "-tcp".to_owned()).into_iter().collect();
        }
        let mut words = self.parameter("pml", "ob1");
        words.extend(self.parameter("btl", "^openib"));
        words
    }

    /// A parameter of MPI.
    fn parameter(self, name: &str, value: &str) -> Vec<String> {
        let option = if self.has_prrte() { "--mca" } else { "-mca" };
        [option, name, value].map(str::to_owned).to_vec()
    }

    /// A parameter of what starts the daemons on other hosts.
    fn launcher(self, name: &str, value: &str) -> Vec<String> {
        if self.has_prrte() {
            return ["--prtemca", &format!("plm_ssh_{name}"), value]
                .map(str::to_owned)
                .to_vec();
        }
        self.parameter(&format!("plm_rsh_{name}"), value)
    }
}

/// The value of PRRTE's `--output`.
fn output_directives(spec: &JobSpec) -> String {
    let mut directives = vec!["tag".to_owned()];
    if spec.output.stamp == Stamp::LocalTime {
        directives.push("timestamp".to_owned());
    }
    if let Some(directory) = &spec.output.directory {
        directives.push(format!("dir={}", directory.display()));
    }
    directives.join(",")
}
