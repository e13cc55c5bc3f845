//! The environment of `mpirun` itself, and which of its variables the ranks on other hosts get. The
//! launcher says nothing about a rank's place: `mpirun` does, and `hvd.init()` asks it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use hvd_config::{is_set_by_launcher, name};

use crate::{
    process::{WorkerHost, passed_on},
    spec::JobSpec,
};

/// Variables and their values.
pub(crate) type Variables = BTreeMap<OsString, OsString>;

/// What an outer `mpirun` or `srun` has told this process about its own place. The ranks get theirs
/// from the new one.
const PLACES: [&str; 8] = [
    "OMPI_COMM_WORLD_",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMIX_SERVER_",
    "PMI_FD",
    "PMI_ID",
    "PMI_RANK",
    "PMI_SIZE",
];

/// The environment in which `mpirun` runs: the launcher's own, without what another job has set,
/// then what options export. A rank's output is not held back in Python's buffers.
pub(crate) fn of_mpirun(spec: &JobSpec) -> Variables {
    let mut variables: Variables = passed_on(&spec.inherited, WorkerHost::SameHost)
        .filter(|(variable, _)| !tells_a_place(variable))
        .collect();
    if !spec.remote.interfaces.is_empty() {
        variables.insert(
            name::INTERFACE.into(),
            spec.remote.interfaces.join(",").into(),
        );
    }
    variables.insert("PYTHONUNBUFFERED".into(), "1".into());
    let exports = spec.exports.iter();
    variables.extend(exports.map(|(variable, value)| (variable.into(), value.into())));
    if let Some((first, last)) = spec.remote.port_range {
        variables.insert(name::PORT_RANGE.into(), format!("{first}-{last}").into());
    }
    variables
}

/// The names that are worth exporting to other hosts, in order. Those of this host alone are not:
/// ranks of this host inherit them, and others have their own.
pub(crate) fn exported(variables: &Variables) -> Vec<String> {
    let listed: Vec<(OsString, OsString)> = variables.clone().into_iter().collect();
    passed_on(&listed, WorkerHost::OtherHost)
        .filter_map(|(variable, _)| variable.into_string().ok())
        .collect()
}

/// Whether the variable is about the place of a rank in some job. The user's choices of controller,
/// operations and interface are not.
pub(super) fn tells_a_place(variable: &OsStr) -> bool {
    let Some(variable) = variable.to_str() else {
        return false;
    };
    let is_choice = [name::CONTROLLER, name::CPU_OPERATIONS, name::INTERFACE].contains(&variable);
    (is_set_by_launcher(variable) && !is_choice)
        || PLACES.iter().any(|place| variable.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpirun::tests::job;

    #[test]
    fn another_jobs_places_stay_behind_and_choices_do_not() {
        let mut spec = job("a:1", 1);
        spec.inherited = [
            ("HOROVOD_CPU_OPERATIONS", "mpi"),
            ("HOROVOD_CYCLE_TIME", "5"),
            ("HOROVOD_RANK", "3"),
            ("HOROVOD_SIZE", "4"),
            ("OLDPWD", "/"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_MCA_btl", "tcp,self"),
            ("PATH", "/bin"),
            ("PMIX_MCA_ptl", "tcp"),
            ("PMIX_RANK", "3"),
            ("SSH_TTY", "/dev/pts/1"),
        ]
        .map(|(variable, value)| (variable.into(), value.into()))
        .to_vec();
        spec.exports = vec![("HOROVOD_CYCLE_TIME".to_owned(), "20.0".to_owned())];
        spec.remote.port_range = Some((5, 9));
        let variables = of_mpirun(&spec);
        assert_eq!(variables[OsStr::new("HOROVOD_CYCLE_TIME")], "20.0");
        assert!(variables.contains_key(OsStr::new("SSH_TTY")));
        assert_eq!(
            exported(&variables).join(" "),
            "HOROVOD_CPU_OPERATIONS HOROVOD_CYCLE_TIME HOROVOD_PORT_RANGE OMPI_MCA_btl PATH \
             PMIX_MCA_ptl PYTHONUNBUFFERED"
        );
    }
}
