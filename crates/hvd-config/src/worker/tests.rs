//! Environments and what becomes of them.

use hvd_types::Rank;

use super::*;

const JOB: [(&str, &str); 12] = [
    ("HOROVOD_RANK", "3"),
    ("HOROVOD_SIZE", "4"),
    ("HOROVOD_LOCAL_RANK", "1"),
    ("HOROVOD_LOCAL_SIZE", "2"),
    ("HOROVOD_CROSS_RANK", "1"),
    ("HOROVOD_CROSS_SIZE", "2"),
    ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"),
    ("HOROVOD_GLOO_RENDEZVOUS_PORT", "4321"),
    ("_HOROVOD_SECRET_KEY", "c0ffee"),
    ("HOROVOD_GLOO_IFACE", "lo"),
    ("HOROVOD_CONTROLLER", "gloo"),
    ("HOROVOD_CPU_OPERATIONS", "gloo"),
];

fn read(changes: &[(&str, &str)]) -> Result<WorkerConfig> {
    WorkerConfig::read(&JOB.iter().chain(changes).copied().collect())
}

#[test]
fn nothing_set_is_a_job_of_one() {
    let config = WorkerConfig::read(&Environment::default()).unwrap();
    assert_eq!(config.placement, Placement::alone());
    assert_eq!(config.rendezvous, None);
    assert_eq!(config.cycle_time, Duration::ZERO);
    assert_eq!(config.fusion_threshold, 128 << 20);
    assert!(config.log_time);
}

#[test]
fn a_launched_worker_knows_its_place() {
    let config = read(&[]).unwrap();
    assert_eq!(config.placement.rank, Rank::new(3));
    assert_eq!(config.placement.local_size, 2);
    assert_eq!(config.rendezvous.unwrap().port, 4321);
    assert_eq!((config.host_addresses, config.port_range), (None, None));
}

#[test]
fn a_worker_among_several_hosts_knows_its_network() {
    let config = read(&[
        ("HOROVOD_HOST_ADDRESSES", "node-b=10.0.0.2, node-c=fd00::3"),
        ("HOROVOD_PORT_RANGE", "30000-30009"),
    ])
    .unwrap();
    let addresses = config.host_addresses.unwrap();
    assert_eq!(addresses["node-b"], IpAddr::from([10, 0, 0, 2]));
    assert_eq!(addresses["node-c"].to_string(), "fd00::3");
    assert_eq!(config.port_range, Some(30000..=30009));
}

#[test]
fn a_file_with_the_key_comes_before_the_key_and_neither_is_shown() {
    let environment: Environment = JOB.into_iter().collect();
    let config = WorkerConfig::read(&environment).unwrap();
    let key = config.rendezvous.as_ref().unwrap().key.clone();
    assert_eq!(key, KeySource::Text("c0ffee".into()));
    for text in [format!("{config:?}"), format!("{environment:?}")] {
        assert!(
            !text.contains("c0ffee") && text.contains("secret"),
            "{text}"
        );
    }
    let config = read(&[("HOROVOD_SECRET_KEY_FILE", "/job/key")]).unwrap();
    let key = config.rendezvous.unwrap().key;
    assert_eq!(key, KeySource::File("/job/key".into()));
    let unset = [("_HOROVOD_SECRET_KEY", "")];
    let error = read(&unset).unwrap_err().to_string();
    assert!(
        error.starts_with("HOROVOD_SECRET_KEY_FILE is not set although"),
        "{error}"
    );
}

#[test]
fn fusion_threshold_is_rounded_up_to_whole_shares() {
    let config = read(&[("HOROVOD_FUSION_THRESHOLD", "1000")]).unwrap();
    assert_eq!(config.fusion_threshold, 1024);
    let config = read(&[("HOROVOD_FUSION_THRESHOLD", "0")]).unwrap();
    assert_eq!(config.fusion_threshold, 0);
}

#[test]
fn garbage_is_an_error_that_names_the_variable() {
    for (variable, value) in [
        ("HOROVOD_FUSION_THRESHOLD", "12 MB"),
        ("HOROVOD_CYCLE_TIME", "-1"),
        ("HOROVOD_CYCLE_TIME", "NaN"),
        ("HOROVOD_CACHE_CAPACITY", "x"),
        ("HOROVOD_CONTROL_FAN_OUT", "0"),
        ("HOROVOD_GLOO_TIMEOUT_SECONDS", "0"),
        ("HOROVOD_LOG_LEVEL", "loud"),
        ("HOROVOD_LOG_HIDE_TIME", "2"),
        ("HOROVOD_TRANSPORT", "pigeon"),
        ("HOROVOD_ENCRYPT", "some"),
        ("HOROVOD_RANK", "one"),
        ("HOROVOD_GLOO_RENDEZVOUS_PORT", "70000"),
        ("HOROVOD_HOST_ADDRESSES", "node-b"),
        ("HOROVOD_PORT_RANGE", "9-8"),
        ("HOROVOD_CONTROLLER", "smoke"),
        ("HOROVOD_CPU_OPERATIONS", "nccl"),
        ("HOROVOD_DYNAMIC_PROCESS_SETS", "yes"),
        ("HOROVOD_DISABLE_GROUP_FUSION", "-1"),
        ("HOROVOD_DETERMINISTIC", "maybe"),
        ("HOROVOD_JOIN_AVERAGE", "some"),
        ("HOROVOD_HIERARCHICAL_ALLREDUCE", "2"),
        ("HOROVOD_HIERARCHICAL_ALLGATHER", "on"),
        ("HOROVOD_TORUS_ALLREDUCE", "x"),
        ("HOROVOD_TIMELINE_MARK_CYCLES", "x"),
        ("HOROVOD_STALL_CHECK_DISABLE", "x"),
        ("HOROVOD_STALL_CHECK_TIME_SECONDS", "0"),
        ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "-1"),
        ("HOROVOD_AUTOTUNE", "x"),
        ("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "x"),
        ("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "0"),
        ("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "1.5"),
        ("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "1.1"),
        ("HOROVOD_THREAD_AFFINITY", "0;1"),
        ("HOROVOD_ELASTIC", "x"),
        ("HOROVOD_NUM_NCCL_STREAMS", "0"),
        ("HOROVOD_ADASUM_MPI_CHUNK_SIZE", "1G"),
        ("HOROVOD_ENABLE_XLA_OPS", "x"),
    ] {
        let error = read(&[(variable, value)]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{variable}=`{value}` is not ")),
            "{error}"
        );
    }
}

#[test]
fn half_a_placement_is_refused() {
    let environment = [("HOROVOD_RANK", "0"), ("HOROVOD_SIZE", "2")]
        .into_iter()
        .collect();
    let error = WorkerConfig::read(&environment).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("HOROVOD_LOCAL_RANK is not set although"),
        "{error}"
    );
    let error = read(&[("HOROVOD_RANK", "4")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "HOROVOD_RANK=4 must be less than HOROVOD_SIZE=4"
    );
}

#[test]
fn what_is_not_set_is_as_documented() {
    let config = WorkerConfig::read(&Environment::default()).unwrap();
    assert!(!config.dynamic_process_sets && !config.disable_group_fusion && !config.elastic);
    assert!(!config.timeline_mark_cycles && !config.deterministic && config.schedule);
    assert_eq!(config.join_average, JoinAverageChoice::AllRanks);
    assert_eq!(config.hierarchical_allreduce, None);
    assert_eq!(config.hierarchical_allgather, None);
    assert_eq!(config.thread_affinity, None);
    assert_eq!((config.timeline, config.autotune), (None, None));
    assert_eq!(config.dump_dir, None);
    assert_eq!(config.control_fan_out, None);
    let stall = config.stall_check.unwrap();
    assert_eq!(stall.warning, Duration::from_secs(60));
    assert_eq!(stall.shutdown, None);
    assert!(config.without_effect.is_empty());
}

#[test]
fn switches_and_words_are_read() {
    let config = read(&[
        ("HOROVOD_DYNAMIC_PROCESS_SETS", "1"),
        ("HOROVOD_DISABLE_GROUP_FUSION", "true"),
        ("HOROVOD_DETERMINISTIC", "TRUE"),
        ("HOROVOD_SCHEDULE", "0"),
        ("HOROVOD_CONTROL_FAN_OUT", "3"),
        ("HOROVOD_TIMELINE_MARK_CYCLES", "1"),
        ("HOROVOD_ELASTIC", "1"),
        ("HOROVOD_HIERARCHICAL_ALLREDUCE", "1"),
        ("HOROVOD_HIERARCHICAL_ALLGATHER", "0"),
        ("HOROVOD_JOIN_AVERAGE", "Contributors"),
        ("HOROVOD_DUMP_DIR", "/reports"),
        ("HOROVOD_CONTROLLER", "Gloo"),
    ])
    .unwrap();
    assert!(config.dynamic_process_sets && config.disable_group_fusion && config.elastic);
    assert!(config.timeline_mark_cycles && config.deterministic && !config.schedule);
    assert_eq!(config.control_fan_out.map(NonZeroUsize::get), Some(3));
    assert_eq!(config.hierarchical_allreduce, Some(true));
    assert_eq!(config.hierarchical_allgather, Some(false));
    assert_eq!(config.join_average, JoinAverageChoice::Contributors);
    assert_eq!(config.dump_dir, Some("/reports".into()));
}

#[test]
fn tensors_are_encrypted_when_asked_for() {
    let choice = |text| read(&[("HOROVOD_ENCRYPT", text)]).unwrap().encryption;
    assert_eq!(choice("ALL"), EncryptionChoice::All);
    assert_eq!(choice("control"), EncryptionChoice::Control);
    assert_eq!(read(&[]).unwrap().encryption, EncryptionChoice::Control);
}

#[test]
fn a_timeline_is_a_file_or_dynamic() {
    let timeline = |text| read(&[("HOROVOD_TIMELINE", text)]).unwrap().timeline;
    assert_eq!(timeline("DYNAMIC"), Some(TimelineTarget::Dynamic));
    assert_eq!(
        timeline("t.json"),
        Some(TimelineTarget::File("t.json".into()))
    );
    assert_eq!(timeline(""), None);
}

#[test]
fn a_job_is_not_ended_before_its_stall_is_reported() {
    let stall = |disable, warning, shutdown| {
        let config = read(&[
            ("HOROVOD_STALL_CHECK_DISABLE", disable),
            ("HOROVOD_STALL_CHECK_TIME_SECONDS", warning),
            ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", shutdown),
        ])?;
        Ok::<_, crate::Error>(config.stall_check)
    };
    let check = stall("0", "5", "5").unwrap().unwrap();
    assert_eq!(check.warning, Duration::from_secs(5));
    assert_eq!(check.shutdown, Some(Duration::from_secs(5)));
    assert_eq!(stall("1", "5", "3"), Ok(None));
    let error = stall("0", "5", "3").unwrap_err().to_string();
    assert!(
        error.starts_with(
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=3 is less than HOROVOD_STALL_CHECK_TIME_SECONDS=5"
        ),
        "{error}"
    );
}

#[test]
fn autotuning_leaves_alone_what_is_set() {
    let config = read(&[
        ("HOROVOD_AUTOTUNE", "1"),
        ("HOROVOD_AUTOTUNE_LOG", "log.csv"),
        ("HOROVOD_AUTOTUNE_START", "earlier.csv"),
        ("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.5"),
        ("HOROVOD_CYCLE_TIME", "2"),
    ])
    .unwrap();
    let expected = AutotuneConfig {
        log: Some("log.csv".into()),
        start: Some("earlier.csv".into()),
        warmup_samples: 3,
        steps_per_sample: 10,
        max_samples: 20,
        noise: 0.5,
        fixed_fusion_threshold: false,
        fixed_cycle_time: true,
        fixed_cache: false,
    };
    assert_eq!(config.autotune, Some(expected));
    assert_eq!(
        read(&[("HOROVOD_AUTOTUNE_LOG", "x")]).unwrap().autotune,
        None
    );
}

#[test]
fn each_process_of_a_host_needs_a_core() {
    let cores =
        |text| Ok::<_, crate::Error>(read(&[("HOROVOD_THREAD_AFFINITY", text)])?.thread_affinity);
    assert_eq!(cores("4, 6"), Ok(Some(vec![4, 6])));
    let error = cores("4").unwrap_err().to_string();
    assert!(
        error.starts_with("HOROVOD_THREAD_AFFINITY has 1 entries but HOROVOD_LOCAL_SIZE=2"),
        "{error}"
    );
}

#[test]
fn transports_of_other_builds_are_refused_as_such() {
    let error = read(&[("HOROVOD_CPU_OPERATIONS", "ccl")]);
    let error = error.unwrap_err().to_string();
    let expected = "HOROVOD_CPU_OPERATIONS=`ccl` is not supported by this build";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn mpi_moves_tensors_without_encryption() {
    let mpi = ("HOROVOD_CPU_OPERATIONS", "mpi");
    let config = read(&[mpi, ("HOROVOD_CONTROLLER", "mpi")]).unwrap();
    assert!(config.mpi.is_some() && config.mpi_controller);
    let refused = read(&[mpi, ("HOROVOD_ENCRYPT", "all")]);
    assert_eq!(refused, Err(crate::Error::Unencrypted));
}

#[test]
fn settings_without_effect_are_known() {
    assert!(read(&[]).unwrap().without_effect.is_empty());
    let changes = [("HOROVOD_NUM_NCCL_STREAMS", "4"), ("NCCL_IB_DISABLE", "1")];
    let config = read(&changes).unwrap();
    assert_eq!(config.without_effect.len(), 1);
    assert_eq!(
        config.without_effect[0].variable,
        "HOROVOD_NUM_NCCL_STREAMS"
    );
}
