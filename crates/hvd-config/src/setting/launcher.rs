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
            "How long `horovodrun` may take before the workers run; 0 means the default.",
        )
        .flag("--start-timeout"),
        setting(
            name::AGENT_TOKEN,
            ValueKind::Text("a token of `horovodrun agent --new-token`"),
            "",
            "Secret by which `horovodrun --agents` and `horovodrun agent` recognise each other.",
        ),
        setting(
            name::ELASTIC_TIMEOUT,
            ValueKind::Seconds,
            "600",
            "How long an elastic job waits for enough slots; 0 means the default.",
        )
        .comes_with("elastic jobs"),
        setting(
            name::SPARK_START_TIMEOUT,
            ValueKind::Seconds,
            "600",
            "How long Spark may take to start the tasks of a job.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_WORK_DIR,
            ValueKind::Text("a folder"),
            "",
            "Folder in which a worker of a Spark job runs.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_PYTHONPATH,
            ValueKind::Text("a list of folders"),
            "",
            "Folders put before the Python path of a worker of a Spark job.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_LOCAL_RANK_GPU,
            ValueKind::Flag,
            "0",
            "1 takes the GPU of the local rank's number and not the one Spark assigned.",
        )
        .comes_with(SPARK),
    ],
};
