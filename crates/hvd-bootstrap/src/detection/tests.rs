//! The decision for what launchers were seen to set, and for what must not be guessed.

use super::*;

fn decision(pairs: &[(&str, &str)]) -> Result<Option<DetectedRank>> {
    decide(&pairs.iter().copied().collect())
}

fn place(pairs: &[(&str, &str)]) -> (&'static str, u32, Option<u32>) {
    let detected = decision(pairs).unwrap().unwrap();
    (detected.launcher.command, detected.rank, detected.size)
}

fn refusal(pairs: &[(&str, &str)]) -> String {
    decision(pairs).unwrap_err().to_string()
}

const OPEN_MPI_4: [(&str, &str); 6] = [
    ("OMPI_COMM_WORLD_RANK", "3"),
    ("OMPI_COMM_WORLD_SIZE", "4"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ("PMIX_NAMESPACE", "3519545345"),
    ("PMIX_RANK", "3"),
];

const DAEMON_OF_SLURM: [(&str, &str); 4] = [
    ("SLURM_JOB_ID", "7"),
    ("SLURM_STEP_ID", "0"),
    ("SLURM_PROCID", "0"),
    ("SLURM_STEP_NUM_TASKS", "2"),
];

#[test]
fn detect_1_each_launcher_is_known() {
    assert_eq!(place(&OPEN_MPI_4), ("mpirun", 3, Some(4)));
    for (pairs, expected) in [
        (
            &[("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("PMI_FD", "6")][..],
            ("mpiexec", 1, Some(2)),
        ),
        (
            &[("PMIX_NAMESPACE", "prterun-a-7@1"), ("PMIX_RANK", "2")],
            ("prterun", 2, None),
        ),
        (
            &[
                ("MV2_COMM_WORLD_RANK", "1"),
                ("MV2_COMM_WORLD_SIZE", "2"),
                ("MPI_LOCALRANKID", "0"),
            ],
            ("mpirun_rsh", 1, Some(2)),
        ),
        (
            &[("JSM_NAMESPACE_RANK", "5"), ("JSM_NAMESPACE_SIZE", "6")],
            ("jsrun", 5, Some(6)),
        ),
        (
            &[("PALS_RANKID", "1"), ("PMI_SIZE", "2"), ("PMI_RANK", "1")],
            ("mpiexec", 1, Some(2)),
        ),
        (
            &[("ALPS_APP_PE", "1"), ("HOROVOD_SIZE", "4")],
            ("aprun", 1, Some(4)),
        ),
        (
            &[
                ("RANK", "1"),
                ("WORLD_SIZE", "2"),
                ("TORCHELASTIC_RUN_ID", "none"),
            ],
            ("torchrun", 1, Some(2)),
        ),
        (
            &[("RANK", "0"), ("WORLD_SIZE", "2")],
            ("torchrun", 0, Some(2)),
        ),
        (
            &[("HOROVOD_RANK", "1"), ("HOROVOD_SIZE", "2"), ("RANK", "7")],
            ("HOROVOD_RANK and HOROVOD_SIZE", 1, Some(2)),
        ),
    ] {
        assert_eq!(place(pairs), expected, "{pairs:?}");
    }
}

#[test]
fn detect_1_what_slurm_started_may_have_started_this_process() {
    assert_eq!(place(&DAEMON_OF_SLURM), ("srun", 0, Some(2)));
    let within = [&OPEN_MPI_4[..], &DAEMON_OF_SLURM[..]].concat();
    assert_eq!(place(&within), ("mpirun", 3, Some(4)));
    // The daemon was started with `--mpi=pmi2`.
    let pmi2 = [&within[..], &[("PMI_RANK", "0"), ("PMI_SIZE", "2")]].concat();
    assert_eq!(place(&pmi2), ("mpirun", 3, Some(4)));
    let torchrun = [
        ("RANK", "3"),
        ("WORLD_SIZE", "4"),
        ("TORCHELASTIC_RUN_ID", "x"),
    ];
    let torchrun = [&torchrun[..], &DAEMON_OF_SLURM[..]].concat();
    assert_eq!(place(&torchrun), ("torchrun", 3, Some(4)));
}

#[test]
fn pmi_and_pmix_of_srun_are_srun() {
    let srun = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "1"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURMD_NODENAME", "n2"),
        ("SLURM_CLUSTER_NAME", "lab"),
    ];
    let pmi2 = [&srun[..], &[("PMI_RANK", "1"), ("PMI_SIZE", "2")]].concat();
    let pmix = [
        &srun[..],
        &[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "slurm.pmix.7.0")],
    ]
    .concat();
    for pairs in [&srun[..], &pmi2, &pmix] {
        let detected = decision(pairs).unwrap().unwrap();
        assert_eq!(
            (detected.launcher, detected.rank, detected.size),
            (&SLURM, 1, Some(2))
        );
        assert_eq!(detected.node.as_deref(), Some("n2"));
        assert_eq!(detected.job.as_deref(), Some("srun-lab-7-0"));
    }
}

#[test]
fn detect_2_contradictions_name_both() {
    let scripts = [("RANK", "0"), ("WORLD_SIZE", "4")];
    let text = refusal(&[&OPEN_MPI_4[..], &scripts].concat());
    assert_eq!(
        text,
        "the variables of two launchers contradict: OMPI_COMM_WORLD_RANK=3 and \
         OMPI_COMM_WORLD_SIZE=4 of `mpirun`, but RANK=0 and WORLD_SIZE=4 of `torchrun`. Unset the \
         ones that are left over, or pass the right rank and size as HOROVOD_RANK and HOROVOD_SIZE"
    );
    let mut ranks = OPEN_MPI_4;
    ranks[5] = ("PMIX_RANK", "1");
    assert!(refusal(&ranks).contains("but PMIX_RANK=1 of `prterun`"));
    let agreed = [("RANK", "3"), ("WORLD_SIZE", "4")];
    assert_eq!(place(&[&OPEN_MPI_4[..], &agreed].concat()).1, 3);
    // The remedy.
    let passed = [("HOROVOD_RANK", "3"), ("HOROVOD_SIZE", "4")];
    assert_eq!(place(&[&ranks[..], &passed].concat()).1, 3);
}

#[test]
fn detect_2_half_of_the_variables_is_an_error() {
    for (pairs, expected) in [
        (
            &[("OMPI_COMM_WORLD_SIZE", "2")][..],
            "but OMPI_COMM_WORLD_RANK is not set",
        ),
        (
            &[("OMPI_COMM_WORLD_RANK", "0")],
            "but OMPI_COMM_WORLD_SIZE is not set",
        ),
        (&[("PMI_SIZE", "4")], "but PMI_RANK is not set"),
        (&[("PMIX_RANK", "1")], "but PMIX_NAMESPACE is not set"),
        (
            &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "2")],
            "but SLURM_PROCID is not set",
        ),
        (&[("WORLD_SIZE", "2")], "but RANK is not set"),
        (
            &[("ALPS_APP_PE", "1")],
            "pass HOROVOD_SIZE with that number",
        ),
        (
            &[("OMPI_COMM_WORLD_RANK", "x"), ("OMPI_COMM_WORLD_SIZE", "2")],
            "OMPI_COMM_WORLD_RANK=`x`, which `mpirun` sets, is not a number",
        ),
        (
            &[("PMI_RANK", "2"), ("PMI_SIZE", "2")],
            "PMI_RANK=2 must be less than PMI_SIZE=2",
        ),
    ] {
        let text = refusal(pairs);
        assert!(text.contains(expected), "{pairs:?}: {text}");
    }
}

#[test]
fn detect_3_a_process_that_was_started_alone_is_left_alone() {
    for pairs in [
        &[][..],
        &[
            ("SLURM_JOB_ID", "77"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_PROCID", "0"),
        ],
        &[("SLURM_STEP_NUM_TASKS", "4")],
        &[("WORLD_SIZE", "the whole world")],
        &[("RANK", "colonel")],
        &[
            ("WORLD_SIZE", "1"),
            ("OMPI_COMM_WORLD_SIZE", "1"),
            ("PMIX_RANK", "0"),
        ],
        &[("WORLD_SIZE", "2"), ("HOROVOD_IGNORE_LAUNCHER", "1")],
    ] {
        assert_eq!(decision(pairs).unwrap(), None, "{pairs:?}");
    }
}

#[test]
fn what_horovodrun_says_wins() {
    let ours = [
        ("HOROVOD_RANK", "0"),
        ("HOROVOD_SIZE", "2"),
        ("HOROVOD_LOCAL_RANK", "0"),
    ];
    assert_eq!(decision(&[&OPEN_MPI_4[..], &ours].concat()).unwrap(), None);
}

#[test]
fn a_job_is_named_after_what_no_other_has() {
    let detected = decision(&OPEN_MPI_4).unwrap().unwrap();
    assert_eq!(detected.job.as_deref(), Some("mpirun-3519545345"));
    let odd = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "../prterun@1")];
    let detected = decision(&odd).unwrap().unwrap();
    assert_eq!(detected.job.as_deref(), Some("prterun-.._prterun_1"));
}
