//! The environment of one worker: the launcher's own, then what options export, then what the plan
//! says about this rank. Later ones win, so a job started inside another job's rank sees its own
//! numbers and not its parent's.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    net::SocketAddr,
};

use hvd_config::name;
use hvd_types::Placement;

/// Where the ranks of a job meet, and what proves that they belong to it.
#[derive(Debug, Clone, Copy)]
pub struct Meeting<'a> {
    /// Address of the key-value store.
    pub address: SocketAddr,
    /// The job's key in hexadecimal.
    pub key: &'a str,
}

/// The whole environment of the worker at `placement`.
///
/// `CUDA_VISIBLE_DEVICES` is passed on: a worker on this machine sees the same devices as the
/// launcher, and dropping the variable would let a job use GPUs its user has hidden.
/// `NCCL_SOCKET_IFNAME` is left alone: on one host NCCL needs no network, and a value the user has
/// set for other purposes must survive.
pub fn environment(
    placement: &Placement,
    inherited: &[(OsString, OsString)],
    exports: &[(String, String)],
    meeting: Meeting<'_>,
) -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<OsString, OsString> = inherited
        .iter()
        .filter(|(variable, _)| is_passed_on(variable))
        .cloned()
        .collect();
    let own = [
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("HOROVOD_CONTROLLER", "gloo".to_owned()),
        ("HOROVOD_CPU_OPERATIONS", "gloo".to_owned()),
        ("HOROVOD_GLOO_IFACE", "lo".to_owned()),
        (name::RENDEZVOUS_ADDR, meeting.address.ip().to_string()),
        (name::RENDEZVOUS_PORT, meeting.address.port().to_string()),
        (name::SECRET_KEY, meeting.key.to_owned()),
    ];
    let exports = exports
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()));
    for (name, value) in exports.chain(own).chain(slot_variables(placement)) {
        variables.insert(name.into(), value.into());
    }
    variables
}

/// What tells a worker its place. The `OMPI_` names are there because training scripts read them.
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

/// Shell functions and the shell's previous directory mean nothing to a worker; another job's key
/// would be wrong even where ours were missing.
fn is_passed_on(variable: &OsStr) -> bool {
    let variable = variable.as_encoded_bytes();
    !variable.starts_with(b"BASH_FUNC_")
        && variable != b"OLDPWD"
        && variable != name::SECRET_KEY.as_bytes()
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
            Meeting {
                address,
                key: "c0ffee",
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
                "HOROVOD_SIZE=2",
                "OMPI_COMM_WORLD_LOCAL_RANK=1",
                "OMPI_COMM_WORLD_RANK=1",
                "OMPI_COMM_WORLD_SIZE=2",
                "PYTHONUNBUFFERED=1",
                "_HOROVOD_SECRET_KEY=c0ffee",
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
            found
                .iter()
                .any(|line| line == "_HOROVOD_SECRET_KEY=c0ffee"),
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
}
