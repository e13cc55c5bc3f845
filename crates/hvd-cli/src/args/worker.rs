//! Options that are handed to the workers as environment variables. Each one that takes a value is
//! checked and brought into the variable's form as it is read; an option that was not given sets
//! nothing, so an inherited variable survives.

use clap::Args;
use hvd_config::name;

use crate::value::typed;

/// Variables and their values.
pub(crate) type Exports = Vec<(&'static str, String)>;

#[derive(Debug, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one per switch of the command line"
)]
pub(crate) struct WorkerArgs {
    #[arg(long, value_name = "MB", allow_negative_numbers = true, value_parser = typed(name::FUSION_THRESHOLD))]
    fusion_threshold_mb: Option<String>,
    #[arg(long, value_name = "MS", allow_negative_numbers = true, value_parser = typed(name::CYCLE_TIME))]
    cycle_time_ms: Option<String>,
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = typed(name::CACHE_CAPACITY))]
    cache_capacity: Option<String>,
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = typed(name::TIMEOUT))]
    gloo_timeout_seconds: Option<String>,
    #[arg(long, conflicts_with = "no_hierarchical_allreduce")]
    hierarchical_allreduce: bool,
    #[arg(long)]
    no_hierarchical_allreduce: bool,
    #[arg(long, conflicts_with = "no_hierarchical_allgather")]
    hierarchical_allgather: bool,
    #[arg(long)]
    no_hierarchical_allgather: bool,
    #[arg(long, conflicts_with = "no_torus_allreduce")]
    torus_allreduce: bool,
    #[arg(long)]
    no_torus_allreduce: bool,

    #[arg(long, conflicts_with = "no_autotune")]
    autotune: bool,
    #[arg(long, hide = true)]
    no_autotune: bool,
    #[arg(long, value_name = "FILE", value_parser = typed(name::AUTOTUNE_LOG))]
    autotune_log_file: Option<String>,
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = typed(name::AUTOTUNE_WARMUP_SAMPLES))]
    autotune_warmup_samples: Option<String>,
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = typed(name::AUTOTUNE_STEPS_PER_SAMPLE))]
    autotune_steps_per_sample: Option<String>,
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = typed(name::AUTOTUNE_MAX_SAMPLES))]
    autotune_bayes_opt_max_samples: Option<String>,
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = typed(name::AUTOTUNE_NOISE))]
    autotune_gaussian_process_noise: Option<String>,

    #[arg(long, value_name = "FILE", value_parser = typed(name::TIMELINE))]
    timeline_filename: Option<String>,
    #[arg(long, conflicts_with = "no_timeline_mark_cycles")]
    timeline_mark_cycles: bool,
    #[arg(long, hide = true)]
    no_timeline_mark_cycles: bool,

    #[arg(long, conflicts_with = "stall_check")]
    no_stall_check: bool,
    #[arg(long, hide = true)]
    stall_check: bool,
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = typed(name::STALL_CHECK_TIME))]
    stall_check_warning_time_seconds: Option<String>,
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = typed(name::STALL_SHUTDOWN_TIME))]
    stall_check_shutdown_time_seconds: Option<String>,

    #[arg(long, value_name = "CORE,...", allow_negative_numbers = true, value_parser = typed(name::THREAD_AFFINITY))]
    thread_affinity: Option<String>,
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = typed(name::NUM_NCCL_STREAMS))]
    num_nccl_streams: Option<String>,
    #[arg(long)]
    pub(crate) tcp: bool,
    #[arg(long, conflicts_with = "no_mpi_threads_disable")]
    mpi_threads_disable: bool,
    #[arg(long, hide = true)]
    no_mpi_threads_disable: bool,

    #[arg(long, value_name = "LEVEL", value_parser = typed(name::LOG_LEVEL))]
    pub(crate) log_level: Option<String>,
    #[arg(long, group = "timestamp")]
    log_without_timestamp: bool,
    #[arg(long, hide = true, group = "timestamp")]
    log_with_timestamp: bool,
    #[arg(long, hide = true, group = "timestamp")]
    log_hide_timestamp: bool,
    #[arg(long, hide = true, group = "timestamp")]
    no_log_hide_timestamp: bool,
}

impl WorkerArgs {
    /// The variables that the options set.
    pub(crate) fn exports(&self) -> Exports {
        let texts = self.texts();
        let texts = texts.map(|(variable, text)| (variable, text.cloned()));
        let switches = self.switches().map(|(variable, on, off)| {
            let value = on.then_some("1").or(off.then_some("0"));
            (variable, value.map(str::to_owned))
        });
        let given = texts.into_iter().chain(switches);
        given
            .filter_map(|(variable, value)| Some((variable, value?)))
            .collect()
    }

    /// The hint for an option that has a better name now.
    pub(crate) fn deprecated(&self) -> Option<String> {
        let (old, new) = match self {
            args if args.log_hide_timestamp => ("--log-hide-timestamp", "--log-without-timestamp"),
            args if args.no_log_hide_timestamp => {
                ("--no-log-hide-timestamp", "--log-with-timestamp")
            }
            _ => return None,
        };
        Some(format!("`{old}` is deprecated; use `{new}`"))
    }

    fn texts(&self) -> [(&'static str, Option<&String>); 15] {
        [
            (name::FUSION_THRESHOLD, &self.fusion_threshold_mb),
            (name::CYCLE_TIME, &self.cycle_time_ms),
            (name::CACHE_CAPACITY, &self.cache_capacity),
            (name::TIMEOUT, &self.gloo_timeout_seconds),
            (name::LOG_LEVEL, &self.log_level),
            (name::AUTOTUNE_LOG, &self.autotune_log_file),
            (name::AUTOTUNE_WARMUP_SAMPLES, &self.autotune_warmup_samples),
            (
                name::AUTOTUNE_STEPS_PER_SAMPLE,
                &self.autotune_steps_per_sample,
            ),
            (
                name::AUTOTUNE_MAX_SAMPLES,
                &self.autotune_bayes_opt_max_samples,
            ),
            (name::AUTOTUNE_NOISE, &self.autotune_gaussian_process_noise),
            (name::TIMELINE, &self.timeline_filename),
            (
                name::STALL_CHECK_TIME,
                &self.stall_check_warning_time_seconds,
            ),
            (
                name::STALL_SHUTDOWN_TIME,
                &self.stall_check_shutdown_time_seconds,
            ),
            (name::THREAD_AFFINITY, &self.thread_affinity),
            (name::NUM_NCCL_STREAMS, &self.num_nccl_streams),
        ]
        .map(|(variable, text)| (variable, text.as_ref()))
    }

    /// Variables, whether an option sets them to 1, whether one sets them to 0.
    fn switches(&self) -> [(&'static str, bool, bool); 9] {
        [
            (
                name::HIERARCHICAL_ALLREDUCE,
                self.hierarchical_allreduce,
                self.no_hierarchical_allreduce,
            ),
            (
                name::HIERARCHICAL_ALLGATHER,
                self.hierarchical_allgather,
                self.no_hierarchical_allgather,
            ),
            (
                name::TORUS_ALLREDUCE,
                self.torus_allreduce,
                self.no_torus_allreduce,
            ),
            (name::AUTOTUNE, self.autotune, self.no_autotune),
            (
                name::TIMELINE_MARK_CYCLES,
                self.timeline_mark_cycles,
                self.no_timeline_mark_cycles,
            ),
            (
                name::STALL_CHECK_DISABLE,
                self.no_stall_check,
                self.stall_check,
            ),
            (name::NCCL_IB_DISABLE, self.tcp, false),
            (
                name::MPI_THREADS_DISABLE,
                self.mpi_threads_disable,
                self.no_mpi_threads_disable,
            ),
            (
                name::LOG_HIDE_TIME,
                self.log_without_timestamp || self.log_hide_timestamp,
                self.log_with_timestamp || self.no_log_hide_timestamp,
            ),
        ]
    }
}
