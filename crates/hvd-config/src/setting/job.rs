//! What the launcher tells each worker: its place in the job and where the ranks meet.

use super::{SettingGroup, ValueKind, name, setting};

pub(super) const IDENTITY: SettingGroup = SettingGroup {
    title: "Place in the job",
    about: "Set by `horovodrun` for each worker; values in its own environment are overridden.",
    settings: &[
        setting(
            name::RANK,
            ValueKind::Count,
            "",
            "Rank of this process in the job.",
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
            "Rank of this process on its host.",
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
            "Index of this host among the hosts that have a process with this local rank.",
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
            "Address of the job's key-value store.",
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
            "The job's key; every connection has to prove that it knows it.",
        ),
        setting(
            name::SECRET_KEY_FILE,
            ValueKind::Text("the path of a file"),
            "",
            "File with the job's key; it takes precedence if both are set.",
        ),
        setting(
            name::HOST_ADDRESSES,
            ValueKind::Addresses,
            "",
            "Addresses at which the ranks of this host reach the other hosts, by `HOROVOD_HOSTNAME`; \
             not needed on a single host.",
        ),
        setting(
            name::INTERFACE,
            ValueKind::Text("the name of a network interface"),
            "",
            "Network interface that the launcher chose; not needed on a single host.",
        ),
        setting(
            name::ELASTIC,
            ValueKind::Flag,
            "0",
            "1 if the number of ranks may change.",
        )
        .comes_with("elastic jobs"),
    ],
};
