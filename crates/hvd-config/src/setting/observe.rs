//! Settings of what one can see: the log, the timeline, the stall check, and autotuning with its
//! log.

use super::{SettingGroup, ValueKind, name, setting};

pub(super) const LOG: SettingGroup = SettingGroup {
    title: "Log",
    about: "What is printed and kept.",
    settings: &[
        setting(
            name::LOG_LEVEL,
            ValueKind::OneOf(
                &["trace", "debug", "info", "warning", "error", "fatal"],
                "`trace`, `debug`, `info`, `warning`, `error` or `fatal`",
            ),
            "warning",
            "Least important messages that are printed.",
        )
        .flag("--log-level")
        .key("logging.level"),
        setting(
            name::LOG_HIDE_TIME,
            ValueKind::Flag,
            "0",
            "1 leaves the time out of log lines. The key says the opposite: `true` shows it.",
        )
        .flag("--log-without-timestamp, --log-with-timestamp")
        .key("logging.with_timestamp"),
        setting(
            name::DUMP_DIR,
            ValueKind::Text("a folder"),
            "",
            "Folder that gets a report of the engine's state when a job fails.",
        ),
    ],
};

pub(super) const TIMELINE: SettingGroup = SettingGroup {
    title: "Timeline",
    about: "A record of every operation, for a trace viewer. Set it alike on all ranks.",
    settings: &[
        setting(
            name::TIMELINE,
            ValueKind::Text("a file name or `DYNAMIC`"),
            "",
            "File that rank 0 writes; `DYNAMIC` waits for `start_timeline()`.",
        )
        .flag("--timeline-filename")
        .key("timeline.filename"),
        setting(
            name::TIMELINE_MARK_CYCLES,
            ValueKind::Flag,
            "0",
            "1 marks the beginning of each round of negotiation.",
        )
        .flag("--timeline-mark-cycles, --no-timeline-mark-cycles")
        .key("timeline.mark_cycles"),
    ],
};

pub(super) const STALL_CHECK: SettingGroup = SettingGroup {
    title: "Stall check",
    about: "Reports tensors that only some ranks have submitted.",
    settings: &[
        setting(
            name::STALL_CHECK_DISABLE,
            ValueKind::Flag,
            "0",
            "1 turns the check off. The key says the opposite: `true` turns it on.",
        )
        .flag("--no-stall-check, --stall-check")
        .key("stall_check.enabled"),
        setting(
            name::STALL_CHECK_TIME,
            ValueKind::PositiveSeconds,
            "60",
            "How long a tensor waits for other ranks before this is reported.",
        )
        .flag("--stall-check-warning-time-seconds")
        .key("stall_check.warning_time_seconds"),
        setting(
            name::STALL_SHUTDOWN_TIME,
            ValueKind::Seconds,
            "0",
            "How long a tensor waits before the job is ended, not less than the time above; 0 \
             never ends it.",
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
            "1 turns autotuning on. A parameter that is set is not tuned; with \
             `HOROVOD_DETERMINISTIC=1` none is.",
        )
        .flag("--autotune, --no-autotune")
        .key("autotune.enabled"),
        setting(
            name::AUTOTUNE_LOG,
            ValueKind::Text("a file name"),
            "",
            "Table of what was tried, comma separated; the last row is the best.",
        )
        .flag("--autotune-log-file")
        .key("autotune.log_file"),
        setting(
            name::AUTOTUNE_START,
            ValueKind::Text("a file name"),
            "",
            "Table of an earlier search, with whose last row to begin.",
        ),
        setting(
            name::AUTOTUNE_WARMUP_SAMPLES,
            ValueKind::Count,
            "3",
            "Number of observations at the start that are thrown away.",
        )
        .flag("--autotune-warmup-samples")
        .key("autotune.warmup_samples"),
        setting(
            name::AUTOTUNE_STEPS_PER_SAMPLE,
            ValueKind::Positive,
            "10",
            "Number of steps that are timed as one sample.",
        )
        .flag("--autotune-steps-per-sample")
        .key("autotune.steps_per_sample"),
        setting(
            name::AUTOTUNE_MAX_SAMPLES,
            ValueKind::Count,
            "20",
            "Number of observations after which the search ends.",
        )
        .flag("--autotune-bayes-opt-max-samples")
        .key("autotune.bayes_opt_max_samples"),
        setting(
            name::AUTOTUNE_NOISE,
            ValueKind::Fraction,
            "0.8",
            "How far measured speeds are off at most, compared with how far they differ.",
        )
        .flag("--autotune-gaussian-process-noise")
        .key("autotune.gaussian_process_noise"),
    ],
};
