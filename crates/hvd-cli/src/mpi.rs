//! `--mpi` and `--jsrun`: whether another launcher starts the ranks, and what it is told. What its
//! command line looks like is `hvd-launch`'s part.

use anyhow::{Result, bail, ensure};
use hvd_config::{Environment, name};
use hvd_launch::{MpiOptions, RankLauncher};

use crate::args::{Args, LauncherArg};

/// What the other launcher is told; nothing if `horovodrun` starts the ranks. `controller` is that
/// of the configuration file, which an option beats.
pub(crate) fn options(args: &Args, controller: Option<&str>) -> Result<Option<MpiOptions>> {
    let by_name = args.hosts.launcher == Some(LauncherArg::Mpirun);
    let (launcher, typed) = match args {
        Args { jsrun: true, .. } => (RankLauncher::Jsrun, "--jsrun"),
        Args { mpi: true, .. } => (RankLauncher::Mpirun, "--mpi"),
        _ if by_name => (RankLauncher::Mpirun, "--launcher mpirun"),
        Args { gloo: false, .. } if controller == Some("mpi") => {
            (RankLauncher::Mpirun, "controller: mpi")
        }
        _ => return Ok(None),
    };
    let without_meaning = [
        (args.gloo, "--gloo"),
        (args.hosts.agents.is_some(), "--agents"),
        (!args.hosts.advertise.is_empty(), "--advertise"),
        (args.hosts.launcher.is_some() && !by_name, "--launcher"),
    ];
    for (is_given, option) in without_meaning {
        ensure!(
            !is_given,
            "`{option}` has no meaning with `{typed}`, which leaves the hosts to another launcher; \
             omit one of them"
        );
    }
    if let Some(image) = &args.container.image {
        bail!(
            "`--container` is not for ranks that `{typed}` starts; put the container into the command, \
             e.g. `horovodrun {typed} -np 2 apptainer exec {image} python train.py`"
        );
    }
    ensure!(
        !args.function_stdin || launcher == RankLauncher::Mpirun,
        "a function cannot be started by `{typed}`; start a script with `horovodrun {typed}`, or \
         leave it out"
    );
    Ok(Some(MpiOptions {
        launcher,
        arguments: args.for_mpirun.clone(),
        binding: args.binding.clone(),
        tcp: args.worker.tcp,
        ranks: args.hosts.num_proc,
    }))
}

/// Refuses to start ranks that were told to use MPI and could not: each would be alone for it.
pub(crate) fn refuse_without_launcher(environment: &Environment, uses_mpi: bool) -> Result<()> {
    let operations = environment.text(name::CPU_OPERATIONS).unwrap_or_default();
    ensure!(
        uses_mpi || !operations.trim().eq_ignore_ascii_case("mpi"),
        "{}=mpi needs ranks that an MPI launcher starts; use `horovodrun --mpi -np N ...`, or start the \
         job with `mpirun`; unset it to use Horovod's own transports",
        name::CPU_OPERATIONS
    );
    Ok(())
}

/// Whether the hosts are those of the allocation, about which only `jsrun` is asked.
pub(crate) fn takes_allocated_hosts(args: &Args) -> bool {
    args.jsrun && args.hosts.hosts.is_none() && args.hosts.hostfile.is_none()
}

/// Hints about options for another launcher that is not used.
pub(crate) fn without_effect(args: &Args) -> impl Iterator<Item = String> {
    let for_mpirun = [
        ("--mpi-args", &args.for_mpirun),
        ("--binding-args", &args.binding),
    ];
    for_mpirun
        .into_iter()
        .filter(|(_, value)| value.is_some())
        .map(|(option, _)| format!("`{option}` has no effect without `--mpi`; omit it"))
}
