//! Settings of the launcher itself and of the front ends that launch from inside other systems.

use super::{SettingGroup, ValueKind, name, setting};

const SPARK: &str = "Spark support";

pub(super) const LAUNCHER: SettingGroup = SettingGroup {
    title: "Launcher",
    about: "Read by the process that starts the job.",
    settings: &[
        setting(
            name::START_TIMEOUT,
            ValueKind::Seconds,
            "30",
            "Timeout for everything before the workers start; 0 means the default.",
        )
        .flag("--start-timeout"),
        setting(
            name::AGENT_TOKEN,
            ValueKind::Text("a token of `horovodrun agent --new-token`"),
            "",
            "Shared secret of `horovodrun --agents` and `horovodrun agent`.",
        ),
        setting(
            name::ELASTIC_TIMEOUT,
            ValueKind::Seconds,
            "600",
            "Timeout for an elastic job to get enough slots; 0 means the default.",
        )
        .comes_with("elastic jobs"),
        setting(
            name::SPARK_START_TIMEOUT,
            ValueKind::Seconds,
            "600",
            "Timeout for Spark to start the tasks of a job.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_WORK_DIR,
            ValueKind::Text("a directory"),
            "",
            "Working directory of the workers of a Spark job.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_PYTHONPATH,
            ValueKind::Text("a list of directories"),
            "",
            "Directories to prepend to the Python path of the workers of a Spark job.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_LOCAL_RANK_GPU,
            ValueKind::Flag,
            "0",
            "1 uses the GPU whose index is the local rank instead of the one Spark assigned.",
        )
        .comes_with(SPARK),
    ],
};
