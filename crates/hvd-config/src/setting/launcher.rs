//! Settings of the launcher itself and of the front ends that launch from inside other systems.

use super::{Group, Values, name, setting};

const SPARK: &str = "Spark support";

pub(super) const LAUNCHER: Group = Group {
    title: "Launcher",
    about: "Read by the process that starts the job.",
    settings: &[
        setting(
            name::START_TIMEOUT,
            Values::Seconds,
            "30",
            "How long `horovodrun` may take before the workers run; 0 means the default.",
        )
        .flag("--start-timeout"),
        setting(
            name::AGENT_TOKEN,
            Values::Text("a token of `horovodrun agent --new-token`"),
            "",
            "Secret by which `horovodrun --agents` and `horovodrun agent` recognise each other.",
        ),
        setting(
            name::ELASTIC_TIMEOUT,
            Values::Seconds,
            "600",
            "How long an elastic job waits for enough slots; 0 means the default.",
        )
        .comes_with("elastic jobs"),
        setting(
            name::SPARK_START_TIMEOUT,
            Values::Seconds,
            "600",
            "How long Spark may take to start the tasks of a job.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_WORK_DIR,
            Values::Text("a folder"),
            "",
            "Folder in which a worker of a Spark job runs.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_PYTHONPATH,
            Values::Text("a list of folders"),
            "",
            "Folders put before the Python path of a worker of a Spark job.",
        )
        .comes_with(SPARK),
        setting(
            name::SPARK_LOCAL_RANK_GPU,
            Values::Flag,
            "0",
            "1 takes the GPU of the local rank's number and not the one Spark assigned.",
        )
        .comes_with(SPARK),
    ],
};
