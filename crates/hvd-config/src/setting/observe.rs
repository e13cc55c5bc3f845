//! Settings of what one can see: the log, the timeline, the stall check, and autotuning with its
//! log.

use super::{SettingGroup, ValueKind, name, setting};

pub(super) const LOG: SettingGroup = SettingGroup {
    title: "Log",
    about: "What is logged, and what is kept when a job fails.",
    settings: &[
        setting(
            name::LOG_LEVEL,
            ValueKind::OneOf(
                &["trace", "debug", "info", "warning", "error", "fatal"],
                "`trace`, `debug`, `info`, `warning`, `error` or `fatal`",
            ),
            "warning",
            "Minimum level of the messages that are logged.",
        )
        .flag("--log-level")
        .key("logging.level"),
        setting(
            name::LOG_HIDE_TIME,
            ValueKind::Flag,
            "0",
            "1 omits the time from log lines. The key is the opposite: `true` shows it.",
        )
        .flag("--log-without-timestamp, --log-with-timestamp")
        .key("logging.with_timestamp"),
        setting(
            name::DUMP_DIR,
            ValueKind::Text("a directory"),
            "",
            "Directory for each rank's last operations and engine state when a job fails.",
        ),
    ],
};

pub(super) const TIMELINE: SettingGroup = SettingGroup {
    title: "Timeline",
    about: "A trace of every operation, for Perfetto and similar viewers.",
    settings: &[
        setting(
            name::TIMELINE,
            ValueKind::Text("a file name or `DYNAMIC`"),
            "",
            "Trace file, written by rank 0; `DYNAMIC` waits for `start_timeline()`.",
        )
        .flag("--timeline-filename")
        .key("timeline.filename"),
        setting(
            name::TIMELINE_MARK_CYCLES,
            ValueKind::Flag,
            "0",
            "1 marks the start of each negotiation cycle.",
        )
        .flag("--timeline-mark-cycles, --no-timeline-mark-cycles")
        .key("timeline.mark_cycles"),
    ],
};

pub(super) const STALL_CHECK: SettingGroup = SettingGroup {
    title: "Stall check",
    about: "Reports tensors that some ranks have submitted and others have not.",
    settings: &[
        setting(
            name::STALL_CHECK_DISABLE,
            ValueKind::Flag,
            "0",
            "1 turns the check off. The key is the opposite: `true` turns it on.",
        )
        .flag("--no-stall-check, --stall-check")
        .key("stall_check.enabled"),
        setting(
            name::STALL_CHECK_TIME,
            ValueKind::PositiveSeconds,
            "60",
            "Time after which a tensor that waits for other ranks is reported.",
        )
        .flag("--stall-check-warning-time-seconds")
        .key("stall_check.warning_time_seconds"),
        setting(
            name::STALL_SHUTDOWN_TIME,
            ValueKind::Seconds,
            "0",
            "Time after which such a tensor ends the job, at least the warning time; 0 never ends it.",
        )
        .flag("--stall-check-shutdown-time-seconds")
        .key("stall_check.shutdown_time_seconds"),
    ],
};

pub(super) const AUTOTUNE: SettingGroup = SettingGroup {
    title: "Autotuning",
    about: "Searches for the fastest parameters while the job runs.",
    settings: &[
        setting(
            name::AUTOTUNE,
            ValueKind::Flag,
            "0",
            "1 turns autotuning on. Parameters that are set are not tuned; with \
             `HOROVOD_DETERMINISTIC=1` none is.",
        )
        .flag("--autotune, --no-autotune")
        .key("autotune.enabled"),
        setting(
            name::AUTOTUNE_LOG,
            ValueKind::Text("a file name"),
            "",
            "CSV file with one row per observation; the last row is the result.",
        )
        .flag("--autotune-log-file")
        .key("autotune.log_file"),
        setting(
            name::AUTOTUNE_START,
            ValueKind::Text("a file name"),
            "",
            "Log of an earlier search; the search starts from its last row.",
        ),
        setting(
            name::AUTOTUNE_WARMUP_SAMPLES,
            ValueKind::Count,
            "3",
            "Number of observations that are discarded at the start.",
        )
        .flag("--autotune-warmup-samples")
        .key("autotune.warmup_samples"),
        setting(
            name::AUTOTUNE_STEPS_PER_SAMPLE,
            ValueKind::Positive,
            "10",
            "Number of steps per sample.",
        )
        .flag("--autotune-steps-per-sample")
        .key("autotune.steps_per_sample"),
        setting(
            name::AUTOTUNE_MAX_SAMPLES,
            ValueKind::Count,
            "20",
            "Number of observations after which the search stops.",
        )
        .flag("--autotune-bayes-opt-max-samples")
        .key("autotune.bayes_opt_max_samples"),
        setting(
            name::AUTOTUNE_NOISE,
            ValueKind::Fraction,
            "0.8",
            "Upper bound of the noise in measured speeds, relative to their spread; the actual noise \
             is estimated when it is lower.",
        )
        .flag("--autotune-gaussian-process-noise")
        .key("autotune.gaussian_process_noise"),
    ],
};
