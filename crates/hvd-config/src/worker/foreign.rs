//! Launchers of other programs: what they tell a process about its place, which this build does not
//! follow. A process that one of them has started as one of several would otherwise be a job of its
//! own, train alone and overwrite what the others save.

use crate::{Environment, Error, Result};

/// What a launcher sets.
struct Launcher {
    /// What people type.
    command: &'static str,
    /// How many processes there are.
    size: &'static str,
    /// Must be set, too, for the size to mean anything.
    with: Option<&'static str>,
    /// What says that all of them are on one host.
    one_host: OneHost,
}

/// A variable that tells whether there is only one host.
enum OneHost {
    /// It says how many processes are on this host.
    Processes(&'static str),
    /// It says how many hosts there are.
    Hosts(&'static str),
}

/// `SLURM_STEP_NUM_TASKS` without a step is a shell's of `salloc`, which starts nothing itself.
const LAUNCHERS: [Launcher; 4] = [
    Launcher {
        command: "mpirun",
        size: "OMPI_COMM_WORLD_SIZE",
        with: None,
        one_host: OneHost::Processes("OMPI_COMM_WORLD_LOCAL_SIZE"),
    },
    Launcher {
        command: "srun",
        size: "SLURM_STEP_NUM_TASKS",
        with: Some("SLURM_STEP_ID"),
        one_host: OneHost::Hosts("SLURM_STEP_NUM_NODES"),
    },
    Launcher {
        command: "mpiexec",
        size: "PMI_SIZE",
        with: None,
        one_host: OneHost::Processes("MPI_LOCALNRANKS"),
    },
    Launcher {
        command: "torchrun",
        size: "WORLD_SIZE",
        with: None,
        one_host: OneHost::Processes("LOCAL_WORLD_SIZE"),
    },
];

/// Set by `prun`, and by others beside their own variables. Says nothing about the size.
const PMIX_RANK: &str = "PMIX_RANK";

/// Refuses to be a job of one process if another launcher has started several.
pub(super) fn refuse(environment: &Environment) -> Result<()> {
    for launcher in &LAUNCHERS {
        let is_whole = launcher
            .with
            .is_none_or(|with| environment.text(with).is_some());
        let size = number(environment, launcher.size).filter(|&size| size > 1 && is_whole);
        if let Some(size) = size {
            let is_one_host = match launcher.one_host {
                OneHost::Processes(variable) => number(environment, variable) == Some(size),
                OneHost::Hosts(variable) => number(environment, variable) == Some(1),
            };
            return Err(Error::ForeignLauncher {
                command: launcher.command,
                variable: launcher.size,
                value: size,
                instead: instead(Some(size), is_one_host),
            });
        }
    }
    match number(environment, PMIX_RANK) {
        Some(rank) if rank > 0 => Err(Error::ForeignLauncher {
            command: "prun",
            variable: PMIX_RANK,
            value: rank,
            instead: instead(None, false),
        }),
        _ => Ok(()),
    }
}

/// A number that another launcher set; anything odd is ignored.
fn number(environment: &Environment, variable: &str) -> Option<u32> {
    environment.text(variable)?.trim().parse().ok()
}

/// What to type.
fn instead(size: Option<u32>, is_one_host: bool) -> String {
    let count = size.map_or_else(|| "N".to_owned(), |size| size.to_string());
    let hosts = if is_one_host {
        ""
    } else {
        " -H HOST1:SLOTS,HOST2:SLOTS"
    };
    format!("horovodrun -np {count}{hosts} python train.py")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkerConfig;

    fn read(pairs: &[(&str, &str)]) -> Result<WorkerConfig> {
        WorkerConfig::read_to_join(&pairs.iter().copied().collect())
    }

    fn refusal(pairs: &[(&str, &str)]) -> String {
        read(pairs).unwrap_err().to_string()
    }

    #[test]
    fn several_processes_of_another_launcher_are_refused() {
        for (pairs, command, instead) in [
            (
                &[("OMPI_COMM_WORLD_SIZE", "4")][..],
                "mpirun",
                "-np 4 -H HOST1:SLOTS,HOST2:SLOTS python",
            ),
            (
                &[
                    ("OMPI_COMM_WORLD_SIZE", "4"),
                    ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
                ],
                "mpirun",
                "-np 4 python",
            ),
            (
                &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "2")],
                "srun",
                "-np 2 -H",
            ),
            (
                &[
                    ("SLURM_STEP_ID", "0"),
                    ("SLURM_STEP_NUM_TASKS", "2"),
                    ("SLURM_STEP_NUM_NODES", "1"),
                ],
                "srun",
                "-np 2 python",
            ),
            (
                &[("PMI_SIZE", "3"), ("PMI_RANK", "0")],
                "mpiexec",
                "-np 3 -H",
            ),
            (&[("PMIX_RANK", "1")], "prun", "-np N -H"),
            (
                &[("PMIX_RANK", "0"), ("PMI_SIZE", "2")],
                "mpiexec",
                "-np 2 -H",
            ),
            (
                &[("WORLD_SIZE", "8"), ("LOCAL_WORLD_SIZE", "8")],
                "torchrun",
                "-np 8 python",
            ),
        ] {
            let text = refusal(pairs);
            assert!(text.contains(&format!("`{command}`")), "{text}");
            assert!(text.contains(&format!("`horovodrun {instead}")), "{text}");
            assert!(text.contains("HOROVOD_IGNORE_LAUNCHER=1"), "{text}");
        }
    }

    #[test]
    fn the_refusal_in_full() {
        assert_eq!(
            refusal(&[
                ("WORLD_SIZE", "2"),
                ("LOCAL_WORLD_SIZE", "2"),
                ("RANK", "1")
            ]),
            "WORLD_SIZE=2 shows that `torchrun` or a similar launcher started several processes; \
             this build of Horovod cannot connect them, so each would train alone. Start the job \
             with `horovodrun -np 2 python train.py`, or set HOROVOD_IGNORE_LAUNCHER=1 to run each \
             process as a job of its own"
        );
    }

    #[test]
    fn one_process_is_a_job_of_one() {
        for pairs in [
            &[("SLURM_JOB_ID", "77"), ("SLURM_NTASKS", "4")][..],
            &[("SLURM_STEP_NUM_TASKS", "4")],
            &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1")],
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")],
            &[("PMI_SIZE", "1"), ("PMI_RANK", "0")],
            &[("WORLD_SIZE", "1")],
            &[("WORLD_SIZE", "the whole world")],
            &[("WORLD_SIZE", "2"), ("HOROVOD_IGNORE_LAUNCHER", "1")],
        ] {
            assert_eq!(read(pairs).unwrap().placement.size, 1, "{pairs:?}");
        }
    }

    #[test]
    fn what_our_own_launcher_says_wins() {
        let ours = [
            "RANK",
            "SIZE",
            "LOCAL_RANK",
            "LOCAL_SIZE",
            "CROSS_RANK",
            "CROSS_SIZE",
        ]
        .map(|word| {
            (
                format!("HOROVOD_{word}"),
                u8::from(word.ends_with("SIZE")).to_string(),
            )
        });
        let theirs = ("OMPI_COMM_WORLD_SIZE".to_owned(), "4".to_owned());
        let environment: Environment = ours.into_iter().chain([theirs]).collect();
        assert_eq!(
            WorkerConfig::read_to_join(&environment)
                .unwrap()
                .placement
                .size,
            1
        );
    }
}
