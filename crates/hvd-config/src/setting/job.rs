//! What the launcher tells each worker: its place in the job and where the ranks meet.

use super::{SettingGroup, ValueKind, name, setting};

pub(super) const IDENTITY: SettingGroup = SettingGroup {
    title: "Place in the job",
    about: "Set by `horovodrun` for each worker; a value of its own environment is overridden.",
    settings: &[
        setting(
            name::RANK,
            ValueKind::Count,
            "",
            "Number of this process in the job.",
        ),
        setting(
            name::SIZE,
            ValueKind::Positive,
            "",
            "Number of processes in the job.",
        ),
        setting(
            name::LOCAL_RANK,
            ValueKind::Count,
            "",
            "Number of this process on its host.",
        ),
        setting(
            name::LOCAL_SIZE,
            ValueKind::Positive,
            "",
            "Number of processes on this host.",
        ),
        setting(
            name::CROSS_RANK,
            ValueKind::Count,
            "",
            "Position of this host among the hosts that have a process with this local rank.",
        ),
        setting(
            name::CROSS_SIZE,
            ValueKind::Positive,
            "",
            "Number of such hosts.",
        ),
        setting(
            name::HOSTNAME,
            ValueKind::Text("a host name"),
            "",
            "Name of this host as given to the launcher.",
        ),
        setting(
            name::RENDEZVOUS_ADDR,
            ValueKind::Text("a host name or address"),
            "",
            "Where the job's key-value store listens.",
        ),
        setting(
            name::RENDEZVOUS_PORT,
            ValueKind::Port,
            "",
            "Port of the job's key-value store.",
        ),
        setting(
            name::SECRET_KEY,
            ValueKind::Text("64 hexadecimal digits"),
            "",
            "The job's key; every connection proves that it knows it.",
        ),
        setting(
            name::SECRET_KEY_FILE,
            ValueKind::Text("the path of a file"),
            "",
            "File that holds the job's key instead, and comes first if both are set.",
        ),
        setting(
            name::HOST_ADDRESSES,
            ValueKind::Addresses,
            "",
            "Address at which the ranks of this host reach each other host, by its \
             `HOROVOD_HOSTNAME`; a job on one host needs none.",
        ),
        setting(
            name::INTERFACE,
            ValueKind::Text("the name of a network interface"),
            "",
            "Network interface that the launcher chose; a job on one host needs none.",
        ),
        setting(
            name::ELASTIC,
            ValueKind::Flag,
            "0",
            "1 tells a worker that the number of ranks may change.",
        )
        .comes_with("elastic jobs"),
    ],
};
