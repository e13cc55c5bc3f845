//! Command lines and what becomes of them.

use clap::Parser;
use hvd_launch::{RankLauncher, Starter};

use super::*;
use crate::argv::spell_out;

fn resolve(line: &str, environment: &[(&str, &str)]) -> Result<Settings> {
    let argv: Vec<String> = format!("horovodrun {line}")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let environment = environment
        .iter()
        .map(|(n, v)| (n.into(), v.into()))
        .collect();
    Settings::resolve(
        Args::try_parse_from(spell_out(&argv))?,
        environment,
        "python3",
    )
}

fn refusal(line: &str) -> String {
    format!("{:#}", resolve(line, &[]).unwrap_err())
}

fn ranks(line: &str) -> usize {
    resolve(line, &[]).unwrap().job.placements.len()
}

#[test]
fn as_many_ranks_as_asked_for_or_as_there_are_slots() {
    assert_eq!(ranks("-np 2 -H localhost:4 x"), 2);
    assert_eq!(ranks("-H localhost:3 x"), 3);
    assert_eq!(ranks("-n 5 x"), 5);
    assert_eq!(ranks("-np4 x"), 4);
    assert!(refusal("-np 5 -H localhost:4 x").contains("5 processes do not fit"));
    assert!(refusal("-H localhost:0 x").contains("no slots"));
}

#[test]
fn mistakes_are_named_with_what_would_be_right() {
    assert!(refusal("-np 2").contains("`horovodrun -np 2 python train.py`"));
    assert!(refusal("python x").contains("the number of processes is missing"));
    for wrong in ["0", "-3", "two", "1.5", "70000"] {
        let text = refusal(&format!("-np {wrong} x"));
        assert!(
            text.contains("a whole number from 1 to 65536, e.g. `-np 4`"),
            "{text}"
        );
    }
    assert!(refusal("-np 2 --cycle-time-ms -1 x").contains("0 or more"));
    assert!(refusal("-np 2 --bogus x").contains("--bogus"));
    assert!(refusal("-np 1 --advertise b=10.0.0.1 x").contains("names host `b`"));
    assert!(refusal("-np 1 --port-range 5-4 x").contains("not a range of ports"));
    assert!(refusal("-np 1 --agents 4711 x").contains("HOROVOD_AGENT_TOKEN is not set"));
    assert!(refusal("-np 1 --agents 4711 -p 22 x").contains("cannot be used with"));
}

#[test]
fn options_about_other_hosts_reach_the_launcher() {
    let line = "-H a:1,bob@b:1 -p 12345 -i Cargo.toml --ssh-strict --network-interfaces eth0,ib0 \
                --advertise a=10.0.0.1,b=[fd00::2] --port-range 5-9 x";
    let job = resolve(line, &[]).unwrap().job;
    assert_eq!(job.hosts[1].name, "bob@b");
    assert_eq!(job.placements[1].hostname, "b");
    let remote = job.remote;
    assert_eq!(
        (remote.ssh.port, remote.port_range),
        (Some(12345), Some((5, 9)))
    );
    assert_eq!(remote.ssh.host_keys, HostKeys::Strict);
    assert_eq!(remote.interfaces, ["eth0", "ib0"]);
    assert_eq!(
        remote.advertised[1],
        ("b".to_owned(), "fd00::2".parse().unwrap())
    );
    let unchecked = resolve("-np 1 --no-host-key-check x", &[])
        .unwrap()
        .job
        .remote;
    assert_eq!(unchecked.ssh.host_keys, HostKeys::Unchecked);
}

#[test]
fn everything_after_the_first_word_belongs_to_the_command() {
    let command = |line: &str| resolve(line, &[]).unwrap().job.command.join(" ");
    assert_eq!(
        command("-np 2 python t.py -v --verbose -np 3"),
        "python t.py -v --verbose -np 3"
    );
    assert_eq!(command("-np 2 -- python -- x"), "python -- x");
    assert_eq!(command("-np 2 -- -odd -name"), "-odd -name");
    assert_eq!(command("-np 2 --verb python"), "python");
}

#[test]
fn options_are_exported_and_what_is_not_given_is_not() {
    let line = "-np 1 --fusion-threshold-mb 10 --cycle-time-ms 20 --cache-capacity 512 \
                --gloo-timeout-seconds 7 --log-level debug x";
    let exports = resolve(line, &[]).unwrap().job.exports;
    let text: Vec<String> = exports.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(
        text,
        [
            "HOROVOD_FUSION_THRESHOLD=10485760",
            "HOROVOD_CYCLE_TIME=20.0",
            "HOROVOD_CACHE_CAPACITY=512",
            "HOROVOD_GLOO_TIMEOUT_SECONDS=7",
            "HOROVOD_LOG_LEVEL=DEBUG",
        ]
    );
    assert!(resolve("-np 1 x", &[]).unwrap().job.exports.is_empty());
}

#[test]
fn the_start_timeout_is_option_then_environment_then_default() {
    let seconds = |line: &str, value: &str| {
        resolve(line, &[("HOROVOD_START_TIMEOUT", value)])
            .unwrap()
            .job
            .start_timeout
            .as_secs()
    };
    assert_eq!(seconds("-np 1 --start-timeout 5 x", "7"), 5);
    assert_eq!(seconds("-np 1 --start-timeout 0 x", "7"), 7);
    assert_eq!(seconds("-np 1 x", "7"), 7);
    assert_eq!(seconds("-np 1 x", "0"), 30);
    assert_eq!(seconds("-np 1 x", ""), 30);
    let error = resolve("-np 1 x", &[("HOROVOD_START_TIMEOUT", "soon")]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("HOROVOD_START_TIMEOUT=`soon` is not a number")
    );
}

#[test]
fn accepted_options_change_nothing() {
    let line = "-p 12345 -i Cargo.toml --gloo --disable-cache --network-interface lo -np 1 x";
    let settings = resolve(line, &[]).unwrap();
    assert!(settings.job.exports.is_empty());
    assert_eq!(settings.log_level, "WARNING");
}

fn exported(line: &str) -> Vec<String> {
    let exports = resolve(line, &[]).unwrap().job.exports;
    exports.iter().map(|(n, v)| format!("{n}={v}")).collect()
}

#[test]
fn another_launcher_gets_what_was_said_to_it() {
    let line = "-np 2 --mpi --mpi-args=-x --binding-args -bind --tcp -H a:1,b:1 x";
    let settings = resolve(line, &[]).unwrap();
    let expected = MpiOptions {
        launcher: RankLauncher::Mpirun,
        arguments: Some("-x".to_owned()),
        binding: Some("-bind".to_owned()),
        tcp: true,
        ranks: Some(2),
    };
    assert_eq!(settings.mpi, Some(expected));
    assert!(
        settings
            .warnings
            .iter()
            .all(|warning| !warning.contains("--mpi-args"))
    );
    assert_eq!(resolve("-np 2 x", &[]).unwrap().mpi, None);
    assert!(refusal("-np 1 --mpi --gloo x").contains("cannot be used with"));
    assert!(refusal("-np 1 --mpi --jsrun x").contains("cannot be used with"));
    assert!(
        refusal("-H a:1 --mpi --advertise a=10.0.0.1 x").contains("`--advertise` has no meaning")
    );
    assert!(refusal("-np 1 --mpi --launcher ssh x").contains("`--launcher` has no meaning"));
    let by_name = resolve("-np 2 --launcher mpirun -H a:1,b:1 x", &[]).unwrap();
    let by_flag = resolve("-np 2 --mpi -H a:1,b:1 x", &[]).unwrap();
    assert_eq!(by_name.mpi, by_flag.mpi);
    assert!(refusal("-np 1 --gloo --launcher mpirun x").contains("omit one of them"));
    let container = refusal("-np 1 --mpi --container a.sif x");
    assert!(
        container.contains("`horovodrun --mpi -np 2 apptainer exec a.sif python train.py`"),
        "{container}"
    );
    assert!(refusal("-np 1 --jsrun --function-stdin x").contains("cannot be started by `--jsrun`"));
}

#[test]
fn the_hosts_of_jsrun_are_those_of_its_allocation_unless_given() {
    let of = |line: &str| resolve(line, &[]).unwrap();
    let open = of("--jsrun -np 7 x");
    assert_eq!((open.job.hosts.len(), open.job.placements.len()), (0, 0));
    let mpi = open.mpi.unwrap();
    assert_eq!((mpi.launcher, mpi.ranks), (RankLauncher::Jsrun, Some(7)));
    assert_eq!(of("--jsrun x").mpi.unwrap().ranks, None);
    assert_eq!(of("--jsrun -H a:2,b:2 x").job.placements.len(), 4);
}

#[test]
fn switches_come_in_pairs() {
    for (option, expected) in [
        (
            "--hierarchical-allreduce",
            "HOROVOD_HIERARCHICAL_ALLREDUCE=1",
        ),
        (
            "--no-hierarchical-allreduce",
            "HOROVOD_HIERARCHICAL_ALLREDUCE=0",
        ),
        (
            "--no-hierarchical-allgather",
            "HOROVOD_HIERARCHICAL_ALLGATHER=0",
        ),
        ("--torus-allreduce", "HOROVOD_TORUS_ALLREDUCE=1"),
        ("--autotune", "HOROVOD_AUTOTUNE=1"),
        ("--no-autotune", "HOROVOD_AUTOTUNE=0"),
        ("--timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES=1"),
        ("--no-stall-check", "HOROVOD_STALL_CHECK_DISABLE=1"),
        ("--stall-check", "HOROVOD_STALL_CHECK_DISABLE=0"),
        ("--mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE=1"),
        ("--tcp", "NCCL_IB_DISABLE=1"),
        ("--log-without-timestamp", "HOROVOD_LOG_HIDE_TIME=1"),
        ("--log-with-timestamp", "HOROVOD_LOG_HIDE_TIME=0"),
        ("--log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME=1"),
        ("--no-log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME=0"),
    ] {
        assert_eq!(exported(&format!("-np 1 {option} x")), [expected]);
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    for line in [
        "--autotune --no-autotune",
        "--stall-check --no-stall-check",
        "--torus-allreduce --no-torus-allreduce",
        "--log-without-timestamp --log-with-timestamp",
        "--log-hide-timestamp -prefix-timestamp",
    ] {
        let text = refusal(&format!("-np 1 {line} x"));
        assert!(text.contains("cannot be used with"), "{line}: {text}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_what_is_right() {
    for (option, right) in [
        ("--fusion-threshold-mb -1", "0 turns fusion off"),
        ("--cache-capacity -1", "a whole number, 0 or more"),
        ("--autotune-warmup-samples -1", "a whole number, 0 or more"),
        ("--autotune-steps-per-sample 0", "a whole number, 1 or more"),
        (
            "--autotune-bayes-opt-max-samples x",
            "a whole number, 0 or more",
        ),
        (
            "--autotune-gaussian-process-noise 1.5",
            "a number from 0 to 1",
        ),
        (
            "--autotune-gaussian-process-noise -0.1",
            "a number from 0 to 1",
        ),
        (
            "--stall-check-warning-time-seconds -1",
            "a number of seconds, 1 or more",
        ),
        (
            "--stall-check-shutdown-time-seconds -1",
            "a number of seconds, 0 or more",
        ),
        ("--num-nccl-streams -1", "a whole number, 1 or more"),
        ("--thread-affinity -1", "a list of core numbers"),
        ("--gloo-timeout-seconds 0", "a number of seconds, 1 or more"),
    ] {
        let text = refusal(&format!("-np 1 {option} x"));
        assert!(text.contains(right), "{option}: {text}");
    }
}

#[test]
fn what_workers_would_refuse_is_refused_before_they_start() {
    let text = refusal("-np 1 --stall-check-shutdown-time-seconds 30 x");
    assert!(
        text.contains("is less than HOROVOD_STALL_CHECK_TIME_SECONDS=60"),
        "{text}"
    );
    let error = |environment| resolve("-np 1 x", &[environment]).map(|_| ());
    let text = error(("HOROVOD_CYCLE_TIME", "fast"))
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("HOROVOD_CYCLE_TIME=`fast` is not"),
        "{text}"
    );
    assert!(error(("HOROVOD_RANK", "of an outer job")).is_ok());
    assert!(error(("HOROVOD_CONTROLLER", "mpi")).is_ok());
}

#[test]
fn what_has_no_effect_yet_is_said_so() {
    let warnings = |line: &str| resolve(line, &[]).unwrap().warnings.join("\n");
    assert_eq!(warnings("-np 1 --cache-capacity 5 x"), "");
    let text = warnings("-np 1 --num-nccl-streams 2 x");
    assert!(
        text.contains("(--num-nccl-streams) has no effect yet"),
        "{text}"
    );
    let text = warnings("-np 1 --log-hide-timestamp x");
    assert_eq!(
        text,
        "`--log-hide-timestamp` is deprecated; use `--log-without-timestamp`"
    );
    assert_eq!(
        warnings("-np 1 --mpi-args=-x --binding-args -bind x"),
        "`--mpi-args` has no effect without `--mpi`; omit it\n\
         `--binding-args` has no effect without `--mpi`; omit it"
    );
}

#[test]
fn options_beat_the_file_wherever_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    let text = "params:\n  cycle_time_ms: 10\n  cache_capacity: 5\nlogging: {level: info}\n";
    std::fs::write(&path, text).unwrap();
    let path = path.display();
    for line in [
        format!("-np 1 --config-file {path} --cycle-time-ms 20 x"),
        format!("-np 1 --cycle-time-ms 20 --config-file {path} x"),
    ] {
        let expected = [
            "HOROVOD_CACHE_CAPACITY=5",
            "HOROVOD_LOG_LEVEL=INFO",
            "HOROVOD_CYCLE_TIME=20.0",
        ];
        assert_eq!(exported(&line), expected);
        assert_eq!(resolve(&line, &[]).unwrap().log_level, "INFO");
    }
}

#[test]
fn a_bad_file_is_named_and_a_good_one_may_choose_mpirun() {
    let text = refusal("-np 1 --config-file /nonexistent.yaml x");
    assert!(
        text.starts_with("cannot read the configuration file /nonexistent.yaml"),
        "{text}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, "controller: mpi\n").unwrap();
    let line = format!("-np 1 --config-file {} x", path.display());
    assert!(resolve(&line, &[]).unwrap().mpi.is_some());
    let gloo = line.replace("-np", "--gloo -np");
    assert_eq!(resolve(&gloo, &[]).unwrap().mpi, None);
}

#[test]
fn a_private_key_has_to_be_there_in_a_form_that_ssh_finds() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().to_str().unwrap();
    std::fs::write(scratch.path().join("here"), "").unwrap();
    std::fs::write(scratch.path().join("in_agent.pub"), "").unwrap();
    let with = |file: &str| resolve(&format!("-np 1 -i {file} x"), &[("HOME", home)]);
    for file in ["~/here", "~/in_agent", &format!("{home}/here"), "%d/key"] {
        let identity = with(file).unwrap().job.remote.ssh.identity;
        assert_eq!(identity, Some(file.into()), "ssh gets it as it was typed");
    }
    let error = with("~/not_here").unwrap_err().to_string();
    assert!(
        error.contains("the file `~/not_here` of `-i` does not exist"),
        "{error}"
    );
}

/// The variables of `salloc -N2 --ntasks-per-node=2`.
const SLURM_JOB: [(&str, &str); 4] = [
    ("SLURM_JOB_ID", "17"),
    ("SLURM_JOB_NODELIST", "n[1-2]"),
    ("SLURM_NTASKS", "4"),
    ("SLURM_TASKS_PER_NODE", "2(x2)"),
];

#[test]
fn inside_an_allocation_neither_hosts_nor_processes_are_needed() {
    let placed = |line: &str| {
        let job = resolve(line, &SLURM_JOB).unwrap().job;
        let names = job.placements.iter().map(|one| one.hostname.clone());
        (names.collect::<Vec<String>>().join(" "), job.remote.starter)
    };
    assert_eq!(placed("x"), ("n1 n1 n2 n2".to_owned(), Starter::Srun));
    assert_eq!(placed("-np 3 x"), ("n1 n1 n2".to_owned(), Starter::Srun));
    let error = resolve("-np 5 x", &SLURM_JOB).unwrap_err().to_string();
    assert!(error.contains("Slurm job 17 has 4 slots"), "{error}");
    // Hosts that were given win; ssh if not all are those of the job.
    assert_eq!(placed("-H n2:1 x"), ("n2".to_owned(), Starter::Srun));
    assert_eq!(
        placed("-H n2:1,far:1 x"),
        ("n2 far".to_owned(), Starter::Ssh)
    );
    assert_eq!(placed("-p 2222 -np 1 x"), ("n1".to_owned(), Starter::Ssh));
    assert_eq!(placed("--launcher ssh -np 1 x").1, Starter::Ssh);
}

#[test]
fn a_broken_allocation_is_no_matter_if_hosts_are_given() {
    let broken = [("SLURM_JOB_ID", "17"), ("SLURM_JOB_NODELIST", "n[1-")];
    let error = resolve("-np 2 x", &broken).unwrap_err().to_string();
    assert!(error.contains("SLURM_JOB_NODELIST"), "{error}");
    assert!(resolve("-np 2 -H localhost:2 x", &broken).is_ok());
}

#[test]
fn a_launcher_needs_what_it_works_with() {
    let said = refusal("-np 1 --launcher srun x");
    assert!(said.contains("SLURM_JOB_ID is not set"), "{said}");
    assert!(refusal("-np 1 --launcher qrsh x").contains("PE_HOSTFILE is not set"));
    assert!(refusal("-np 1 --launcher agents x").contains("give `--agents PORT`"));
    assert!(refusal("-np 1 --launcher rsh x").contains("blaunch"));
    let error = resolve("--launcher srun -p 22 x", &SLURM_JOB).unwrap_err();
    assert!(
        error.to_string().contains("takes no options for ssh"),
        "{error}"
    );
}

#[test]
fn options_of_containers_need_an_image() {
    let said = refusal("-np 1 --container-runtime docker x");
    assert!(said.contains("--container <IMAGE>"), "{said}");
    let job = resolve(
        "-np 1 --container docker://a/b --container-args --rm=x x",
        &[],
    );
    let container = job.unwrap().job.container.unwrap();
    assert_eq!(container.image, "docker://a/b");
    assert_eq!(container.arguments, ["--rm=x"]);
}

#[test]
fn mpi_for_tensors_needs_an_mpi_launcher() {
    let variables = [("HOROVOD_CPU_OPERATIONS", "MPI")];
    let text = format!("{:#}", resolve("-np 2 x", &variables).unwrap_err());
    assert!(text.contains("use `horovodrun --mpi -np N ...`"), "{text}");
    resolve("--mpi -np 2 x", &variables).unwrap();
}
