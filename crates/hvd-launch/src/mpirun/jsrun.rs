//! The `jsrun` command line of a job inside an LSF allocation: a pure function of the job and of
//! where its rankfile lies. `jsrun` passes the environment on and knows the hosts by itself.

use std::{ffi::OsStr, path::Path};

use super::{
    MpiOptions,
    command::{CommandLine, typed},
    environment,
    implementation::Implementation,
};
use crate::{error::Result, spec::JobSpec};

/// The variable that names NCCL's interfaces.
const NCCL_INTERFACES: &str = "NCCL_SOCKET_IFNAME";

/// The command line that runs `spec`. A rankfile is needed unless the user says how ranks are bound.
pub(crate) fn compose(
    implementation: Implementation,
    spec: &JobSpec,
    options: &MpiOptions,
    rankfile: &Path,
) -> Result<CommandLine> {
    let mut words = vec!["jsrun".to_owned()];
    words.extend(match &options.binding {
        Some(binding) => typed("--binding-args", Some(binding))?,
        None => vec!["--erf_input".to_owned(), rankfile.display().to_string()],
    });
    if let Some(file) = &spec.output.directory {
        let file = file.display().to_string();
        words.extend(["--stdio_stderr".to_owned(), file.clone()]);
        words.extend(["--stdio_stdout".to_owned(), file]);
    }
    let for_mpi = for_mpi(implementation, options);
    if !for_mpi.is_empty() {
        words.extend(["--smpiargs".to_owned(), for_mpi]);
    }
    words.extend(spec.command.iter().cloned());
    let mut environment = environment::of_mpirun(spec);
    let interfaces = &spec.remote.interfaces;
    if !interfaces.is_empty() && !environment.contains_key(OsStr::new(NCCL_INTERFACES)) {
        environment.insert(NCCL_INTERFACES.into(), interfaces.join(",").into());
    }
    Ok(CommandLine { words, environment })
}

/// What is said to MPI itself, as one text.
fn for_mpi(implementation: Implementation, options: &MpiOptions) -> String {
    let own = match implementation {
        Implementation::OpenMpi | Implementation::OpenMpiWithPrrte => {
            Some("-mca pml ob1 -mca btl ^openib")
        }
        Implementation::Spectrum if options.tcp => Some("-tcp"),
        _ => None,
    };
    let own = own.into_iter().chain(options.arguments.as_deref());
    own.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpirun::tests::job;

    fn line(implementation: Implementation, spec: &JobSpec, options: &MpiOptions) -> String {
        let rankfile = Path::new("/tmp/rankfile");
        compose(implementation, spec, options, rankfile)
            .unwrap()
            .text()
    }

    #[test]
    fn a_rankfile_says_where_ranks_go() {
        let options = MpiOptions::default();
        assert_eq!(
            line(Implementation::Spectrum, &job("a:2", 2), &options),
            "jsrun --erf_input /tmp/rankfile python train.py"
        );
    }

    #[test]
    fn options_are_handed_to_jsrun_and_to_mpi() {
        let mut spec = job("a:2", 2);
        spec.output.directory = Some("out".into());
        spec.remote.interfaces = vec!["ib0".to_owned(), "ib1".to_owned()];
        let options = MpiOptions {
            arguments: Some("-x A=1".to_owned()),
            binding: Some("--bind packed:7 -r 6".to_owned()),
            tcp: true,
            ..MpiOptions::default()
        };
        let expected = |flags: &str| {
            format!(
                "jsrun --bind packed:7 -r 6 --stdio_stderr out --stdio_stdout out \
                 --smpiargs '{flags} -x A=1' python train.py"
            )
        };
        assert_eq!(
            line(Implementation::Spectrum, &spec, &options),
            expected("-tcp")
        );
        assert_eq!(
            line(Implementation::OpenMpi, &spec, &options),
            expected("-mca pml ob1 -mca btl ^openib")
        );
        let composed = compose(Implementation::Spectrum, &spec, &options, Path::new("x")).unwrap();
        assert_eq!(composed.environment[OsStr::new(NCCL_INTERFACES)], "ib0,ib1");
    }
}
