//! The environment of one worker: the launcher's own, then what options export, then what the plan
//! says about this rank, then where the ranks meet. Later ones win, so a job started inside another
//! job's rank sees its own numbers and not its parent's.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    net::SocketAddr,
    path::Path,
};

use hvd_config::name;
use hvd_types::Placement;

/// Where the ranks of a job meet, and what proves that they belong to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreLocation<'a> {
    /// Address of the key-value store.
    pub(crate) address: SocketAddr,
    /// The file with the job's key.
    pub(crate) key_file: &'a Path,
}

/// The whole environment of the worker at `placement` on this machine.
pub(crate) fn environment(
    placement: &Placement,
    inherited: &[(OsString, OsString)],
    exports: &[(String, String)],
    store_location: StoreLocation<'_>,
) -> BTreeMap<OsString, OsString> {
    let told = rank_variables(placement, exports);
    let told = told
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()));
    let met = store_variables(store_location)
        .into_iter()
        .map(|(name, value)| (name.into(), value));
    passed_on(inherited, WorkerHost::SameHost)
        .chain(told)
        .chain(met)
        .collect()
}

/// Whether a worker runs where the launcher does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerHost {
    /// It does.
    SameHost,
    /// It runs on another host.
    OtherHost,
}

/// What of the launcher's environment a worker gets.
///
/// On this machine `CUDA_VISIBLE_DEVICES` is passed on: a worker sees the same devices as the
/// launcher, and dropping the variable would let a job use GPUs its user has hidden. Another host
/// has devices of its own.
pub(crate) fn passed_on(
    inherited: &[(OsString, OsString)],
    reach: WorkerHost,
) -> impl Iterator<Item = (OsString, OsString)> {
    inherited
        .iter()
        .filter(move |(variable, _)| is_passed_on(variable, reach))
        .cloned()
}

/// A rank's variables about itself, and what options set for all ranks.
///
/// `NCCL_SOCKET_IFNAME` is left alone: on one host NCCL needs no network, and a value the user has
/// set for other purposes must survive.
pub(crate) fn rank_variables(
    placement: &Placement,
    exports: &[(String, String)],
) -> Vec<(String, String)> {
    let mut variables = exports.to_vec();
    let fixed = [
        ("PYTHONUNBUFFERED", "1"),
        ("HOROVOD_CONTROLLER", "gloo"),
        ("HOROVOD_CPU_OPERATIONS", "gloo"),
    ];
    variables.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    if placement.is_single_host() {
        variables.push(("HOROVOD_GLOO_IFACE".to_owned(), "lo".to_owned()));
    }
    let slot = slot_variables(placement);
    variables.extend(slot.map(|(name, value)| (name.to_owned(), value)));
    variables
}

/// The variables that say where a rank meets the others.
pub(crate) fn store_variables(store_location: StoreLocation<'_>) -> [(&'static str, OsString); 3] {
    [
        (
            name::RENDEZVOUS_ADDR,
            store_location.address.ip().to_string().into(),
        ),
        (
            name::RENDEZVOUS_PORT,
            store_location.address.port().to_string().into(),
        ),
        (name::SECRET_KEY_FILE, store_location.key_file.into()),
    ]
}

/// The variables of a worker's rank and size. The `OMPI_` names are there because training scripts
/// read them.
fn slot_variables(placement: &Placement) -> [(&'static str, String); 10] {
    let Placement {
        rank,
        size,
        local_rank,
        local_size,
        cross_rank,
        cross_size,
        hostname,
    } = placement;
    [
        (name::HOSTNAME, hostname.clone()),
        (name::RANK, rank.to_string()),
        (name::SIZE, size.to_string()),
        (name::LOCAL_RANK, local_rank.to_string()),
        (name::LOCAL_SIZE, local_size.to_string()),
        (name::CROSS_RANK, cross_rank.to_string()),
        (name::CROSS_SIZE, cross_size.to_string()),
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_SIZE", size.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local_rank.to_string()),
    ]
}

/// Names that describe a login, a terminal or a machine, and would be wrong on another host.
const OF_ONE_HOST: [&str; 14] = [
    "CUDA_VISIBLE_DEVICES",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOST",
    "HOSTNAME",
    "PWD",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
    "_",
];

/// Shell functions and the shell's previous directory mean nothing to a worker; another job's key
/// would be wrong even where ours were missing.
fn is_passed_on(variable: &OsStr, reach: WorkerHost) -> bool {
    let name = variable.as_encoded_bytes();
    !name.starts_with(b"BASH_FUNC_")
        && variable != "OLDPWD"
        && variable != name::SECRET_KEY
        && variable != name::SECRET_KEY_FILE
        && variable != name::AGENT_TOKEN
        && (reach == WorkerHost::SameHost || !OF_ONE_HOST.iter().any(|one| variable == *one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rank_one(inherited: &[(&str, &str)], exports: &[(&str, &str)]) -> Vec<String> {
        let placement = Placement {
            rank: hvd_types::Rank::new(1),
            size: 2,
            local_rank: 1,
            local_size: 2,
            ..Placement::alone()
        };
        let inherited: Vec<_> = inherited
            .iter()
            .map(|(n, v)| (n.into(), v.into()))
            .collect();
        let exports: Vec<_> = exports
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        let address = SocketAddr::from(([127, 0, 0, 1], 4711));
        environment(
            &placement,
            &inherited,
            &exports,
            StoreLocation {
                address,
                key_file: Path::new("/run/key"),
            },
        )
        .into_iter()
        .map(|(name, value)| format!("{}={}", name.display(), value.display()))
        .collect()
    }

    #[test]
    fn a_rank_is_told_its_place_and_where_to_meet() {
        assert_eq!(
            of_rank_one(&[], &[]),
            [
                "HOROVOD_CONTROLLER=gloo",
                "HOROVOD_CPU_OPERATIONS=gloo",
                "HOROVOD_CROSS_RANK=0",
                "HOROVOD_CROSS_SIZE=1",
                "HOROVOD_GLOO_IFACE=lo",
                "HOROVOD_GLOO_RENDEZVOUS_ADDR=127.0.0.1",
                "HOROVOD_GLOO_RENDEZVOUS_PORT=4711",
                "HOROVOD_HOSTNAME=localhost",
                "HOROVOD_LOCAL_RANK=1",
                "HOROVOD_LOCAL_SIZE=2",
                "HOROVOD_RANK=1",
                "HOROVOD_SECRET_KEY_FILE=/run/key",
                "HOROVOD_SIZE=2",
                "OMPI_COMM_WORLD_LOCAL_RANK=1",
                "OMPI_COMM_WORLD_RANK=1",
                "OMPI_COMM_WORLD_SIZE=2",
                "PYTHONUNBUFFERED=1",
            ]
        );
    }

    #[test]
    fn the_plan_beats_options_and_options_beat_what_was_inherited() {
        let found = of_rank_one(
            &[
                ("HOROVOD_RANK", "7"),
                ("HOROVOD_CYCLE_TIME", "5"),
                ("_HOROVOD_SECRET_KEY", "old"),
            ],
            &[("HOROVOD_CYCLE_TIME", "20.0"), ("HOROVOD_SIZE", "9")],
        );
        for expected in [
            "HOROVOD_RANK=1",
            "HOROVOD_CYCLE_TIME=20.0",
            "HOROVOD_SIZE=2",
        ] {
            assert!(
                found.iter().any(|line| line == expected),
                "{expected} not in {found:?}"
            );
        }
        assert!(
            !found
                .iter()
                .any(|line| line.contains("_HOROVOD_SECRET_KEY=")),
            "{found:?}"
        );
    }

    #[test]
    fn shell_leftovers_stay_behind_and_hidden_gpus_stay_hidden() {
        let inherited = [
            ("BASH_FUNC_module%%", "() { :; }"),
            ("OLDPWD", "/"),
            ("OLDPWD_KEPT", "1"),
            ("CUDA_VISIBLE_DEVICES", "1"),
        ];
        let found = of_rank_one(&inherited, &[]);
        let has = |name: &str| found.iter().any(|line| line.starts_with(name));
        assert!(!has("BASH_FUNC_") && !has("OLDPWD="));
        assert!(has("OLDPWD_KEPT=1") && has("CUDA_VISIBLE_DEVICES=1"));
    }

    #[test]
    fn another_host_keeps_its_own_names_and_devices() {
        let variables = [
            ("HOSTNAME", "here"),
            ("SSH_CLIENT", "10.0.0.1"),
            ("CUDA_VISIBLE_DEVICES", "1"),
            ("PATH", "/venv/bin"),
            ("_HOROVOD_SECRET_KEY", "00"),
        ];
        let variables = variables.map(|(n, v)| (n.into(), v.into()));
        let names = |reach| -> Vec<OsString> {
            passed_on(&variables, reach).map(|(name, _)| name).collect()
        };
        assert_eq!(names(WorkerHost::OtherHost), ["PATH"]);
        assert_eq!(names(WorkerHost::SameHost).len(), 4);
    }
}
