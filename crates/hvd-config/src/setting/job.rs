//! What the launcher tells each worker: its place in the job and where the ranks meet; and how ranks
//! that another launcher started find that out.

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

pub(super) const BOOTSTRAP: SettingGroup = SettingGroup {
    title: "Jobs that other launchers start",
    about: "Under `mpirun`, `srun`, `torchrun` and others, `hvd.init()` finds the rank in their \
            variables and the other ranks through them; these settings are for when that is not \
            enough. With `HOROVOD_RANK` and `HOROVOD_SIZE` you can also give each process its place \
            yourself.",
    settings: &[
        setting(
            name::BOOTSTRAP,
            ValueKind::OneOf(
                &["auto", "pmix", "pmi", "file"],
                "`auto`, `pmix`, `pmi` or `file`",
            ),
            "auto",
            "How rank 0 tells the other ranks where it listens: through the launcher's PMIx or PMI, or \
             through a file that all ranks see.",
        ),
        setting(
            name::BOOTSTRAP_DIR,
            ValueKind::Text("the path of a directory"),
            "",
            "Directory for that file, shared by all hosts; without it `~/.horovod/bootstrap`. If it is \
             set, the file is used.",
        ),
        setting(
            name::BOOTSTRAP_ADDR,
            ValueKind::Text("a host name or address"),
            "",
            "Where rank 0 is to listen, for ranks that are started by hand; together with \
             `HOROVOD_RENDEZVOUS_PORT` and `HOROVOD_SECRET_KEY_FILE`.",
        ),
        setting(name::BOOTSTRAP_PORT, ValueKind::Port, "", "The port to it."),
    ],
};
