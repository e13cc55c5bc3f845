//! Command lines of all families, word for word.

use std::{path::PathBuf, time::Duration};

use super::{MpiOptions, command::compose, implementation::Implementation};
use crate::{
    hosts::{
        Starter, allocate, parse_hosts,
        ssh::{HostKeys, SshOptions},
    },
    spec::{FunctionMode, JobSpec, OutputOptions, RemoteOptions, Stamp, Verbosity},
};

/// A job of `python train.py` with nothing said but its hosts.
pub(super) fn job(hosts: &str, ranks: u32) -> JobSpec {
    let hosts = parse_hosts(hosts).unwrap();
    JobSpec {
        command: vec!["python".to_owned(), "train.py".to_owned()],
        directory: PathBuf::from("/work"),
        placements: allocate(&hosts, ranks).unwrap(),
        hosts,
        remote: RemoteOptions {
            ssh: SshOptions {
                port: None,
                identity: None,
                host_keys: HostKeys::AcceptNew,
                connect_timeout: Duration::from_secs(8),
            },
            rsh_agent: None,
            agents: None,
            allocation: None,
            starter: Starter::Ssh,
            interpreter: "python3".to_owned(),
            interfaces: Vec::new(),
            advertised: Vec::new(),
            port_range: None,
        },
        inherited: vec![
            ("PATH".into(), "/bin".into()),
            ("HOME".into(), "/root".into()),
        ],
        exports: Vec::new(),
        output: OutputOptions::default(),
        start_timeout: Duration::from_secs(30),
        container: None,
        verbosity: Verbosity::Quiet,
        function: FunctionMode::default(),
    }
}

/// The same with everything said.
fn full_job() -> (JobSpec, MpiOptions) {
    let mut spec = job("host1:2,host2:2", 4);
    spec.command.push("a b".to_owned());
    spec.remote.ssh.port = Some(1022);
    spec.remote.ssh.identity = Some(PathBuf::from("key"));
    spec.remote.interfaces = vec!["eth0".to_owned(), "eth1".to_owned()];
    spec.exports = vec![("HOROVOD_CYCLE_TIME".to_owned(), "20.0".to_owned())];
    spec.output = OutputOptions {
        directory: Some(PathBuf::from("out")),
        stamp: Stamp::LocalTime,
    };
    let options = MpiOptions {
        arguments: Some("-mca mpi_abort_print_stack 1 --tune 'my file'".to_owned()),
        binding: Some("-bind-to hwthread".to_owned()),
        tcp: true,
        ..MpiOptions::default()
    };
    (spec, options)
}

fn line(implementation: Implementation, spec: &JobSpec, options: &MpiOptions) -> String {
    compose(implementation, spec, options).unwrap().text()
}

fn refusal(implementation: Implementation, spec: &JobSpec) -> String {
    let error = compose(implementation, spec, &MpiOptions::default()).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn a_plain_job_of_each_family() {
    for (implementation, expected) in [
        (
            Implementation::OpenMpi,
            "mpirun --allow-run-as-root --tag-output -np 3 -H host1:2,host2:2 -bind-to none \
             -map-by slot -mca pml ob1 -mca btl '^openib' -x HOME -x PATH -x PYTHONUNBUFFERED \
             python train.py",
        ),
        (
            Implementation::OpenMpiWithPrrte,
            "mpirun --allow-run-as-root --output tag -np 3 -H host1:2,host2:2 --bind-to none \
             --map-by slot --mca pml ob1 --mca btl '^openib' -x HOME -x PATH -x PYTHONUNBUFFERED \
             python train.py",
        ),
        (
            Implementation::Spectrum,
            "mpirun --allow-run-as-root --tag-output -np 3 -H host1:2,host2:2 -bind-to socket \
             -map-by socket -rank-by core -x HOME -x PATH -x PYTHONUNBUFFERED python train.py",
        ),
        (
            Implementation::Mpich,
            "mpirun -l -np 3 -ppn 2 -hosts host1,host2 -bind-to none -map-by slot python train.py",
        ),
        (
            Implementation::Intel,
            "mpirun -l -np 3 -ppn 2 -hosts host1,host2 python train.py",
        ),
    ] {
        let spec = job("host1:2,host2:2", 3);
        assert_eq!(
            line(implementation, &spec, &MpiOptions::default()),
            expected
        );
    }
}

#[test]
fn everything_said_to_open_mpi() {
    let (spec, options) = full_job();
    assert_eq!(
        line(Implementation::OpenMpi, &spec, &options),
        "mpirun --allow-run-as-root --tag-output -np 4 -H host1:2,host2:2 -bind-to hwthread \
         -mca pml ob1 -mca btl '^openib' --timestamp-output -mca plm_rsh_args '-p 1022 -i key' \
         -mca btl_tcp_if_include eth0,eth1 -x 'NCCL_SOCKET_IFNAME=eth0,eth1' --output-filename out \
         -x HOME -x HOROVOD_CYCLE_TIME -x HOROVOD_GLOO_IFACE -x PATH -x PYTHONUNBUFFERED \
         -mca mpi_abort_print_stack 1 --tune 'my file' python train.py 'a b'"
    );
    assert_eq!(
        line(Implementation::OpenMpiWithPrrte, &spec, &options),
        "mpirun --allow-run-as-root --output 'tag,timestamp,dir=out' -np 4 -H host1:2,host2:2 \
         -bind-to hwthread --mca pml ob1 --mca btl '^openib' --prtemca plm_ssh_args '-p 1022 -i key' \
         --mca btl_tcp_if_include eth0,eth1 -x 'NCCL_SOCKET_IFNAME=eth0,eth1' -x HOME \
         -x HOROVOD_CYCLE_TIME -x HOROVOD_GLOO_IFACE -x PATH -x PYTHONUNBUFFERED \
         -mca mpi_abort_print_stack 1 --tune 'my file' python train.py 'a b'"
    );
}

#[test]
fn everything_said_to_spectrum() {
    let (mut spec, options) = full_job();
    // Set beforehand as well, which must not be exported a second time.
    spec.inherited
        .push(("NCCL_SOCKET_IFNAME".into(), "ib0".into()));
    assert_eq!(
        line(Implementation::Spectrum, &spec, &options),
        "mpirun --allow-run-as-root --tag-output -np 4 -H host1:2,host2:2 -bind-to hwthread -tcp \
         --timestamp-output -mca plm_rsh_args '-p 1022 -i key' -mca btl_tcp_if_include eth0,eth1 \
         -x 'NCCL_SOCKET_IFNAME=eth0,eth1' --output-filename out -x HOME -x HOROVOD_CYCLE_TIME \
         -x HOROVOD_GLOO_IFACE -x PATH -x PYTHONUNBUFFERED -mca mpi_abort_print_stack 1 --tune 'my file' python train.py \
         'a b'"
    );
}

#[test]
fn everything_said_to_hydra() {
    let (mut spec, options) = full_job();
    spec.remote.interfaces.truncate(1);
    assert_eq!(
        line(Implementation::Intel, &spec, &options),
        "mpirun -l -np 4 -ppn 2 -hosts host1,host2 '-bootstrap=ssh' \
         -bootstrap-exec-args '-p 1022 -i key' -iface eth0 -genv 'NCCL_SOCKET_IFNAME=eth0' \
         -outfile-pattern out -mca mpi_abort_print_stack 1 --tune 'my file' python train.py 'a b'"
    );
    let mpich = compose(Implementation::Mpich, &spec, &options).unwrap();
    assert_eq!(
        mpich.text(),
        "mpirun -l -np 4 -ppn 2 -hosts host1,host2 -bind-to none -map-by slot '-bootstrap=ssh' \
         -iface eth0 -genv 'NCCL_SOCKET_IFNAME=eth0' -outfile-pattern out \
         -mca mpi_abort_print_stack 1 --tune 'my file' python train.py 'a b'"
    );
    let extra = std::ffi::OsStr::new("HYDRA_LAUNCHER_EXTRA_ARGS");
    assert_eq!(mpich.environment[extra], "-p 1022 -i key");
}

#[test]
fn many_hosts_are_started_at_once() {
    let hosts = |number: usize| -> String {
        let hosts: Vec<String> = (0..number).map(|index| format!("h{index}:1")).collect();
        hosts.join(",")
    };
    let options = MpiOptions::default();
    for (implementation, expected) in [
        (
            Implementation::OpenMpi,
            " -mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 64 ",
        ),
        (
            Implementation::Spectrum,
            " -mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 64 ",
        ),
        (
            Implementation::OpenMpiWithPrrte,
            " --prtemca plm_ssh_no_tree_spawn true --prtemca plm_ssh_num_concurrent 64 ",
        ),
    ] {
        assert!(line(implementation, &job(&hosts(64), 64), &options).contains(expected));
        assert!(!line(implementation, &job(&hosts(63), 63), &options).contains("tree_spawn"));
    }
}

#[test]
fn host_keys_are_checked_as_asked_for() {
    let mut spec = job("a:1", 1);
    let arguments = |spec: &JobSpec| line(Implementation::OpenMpi, spec, &MpiOptions::default());
    spec.remote.ssh.host_keys = HostKeys::Strict;
    let strict = arguments(&spec);
    assert!(
        strict.contains("-mca plm_rsh_args '-o StrictHostKeyChecking=yes'"),
        "{strict}"
    );
    spec.remote.ssh.host_keys = HostKeys::Unchecked;
    assert!(arguments(&spec).contains("-o UserKnownHostsFile=/dev/null'"));
}

#[test]
fn what_cannot_be_said_is_refused_with_what_can() {
    for implementation in [Implementation::Mpich, Implementation::Intel] {
        let uneven = refusal(implementation, &job("a:2,b:1", 3));
        assert!(uneven.contains("`-H a:2,b:1`"), "{uneven}");
        let mut spec = job("a:1", 1);
        spec.remote.interfaces = vec!["eth0".to_owned(), "eth1".to_owned()];
        let several = refusal(implementation, &spec);
        assert!(several.contains("`--network-interfaces eth0`"), "{several}");
    }
    let user = refusal(Implementation::OpenMpi, &job("bob@b:1", 1));
    assert!(user.contains("write `b`, and set its `User`"), "{user}");
    let address = refusal(Implementation::OpenMpi, &job("[fd00::2]:1", 1));
    assert!(address.contains("give it a name"), "{address}");
    let mut spec = job("a:1", 1);
    spec.remote.ssh.identity = Some(PathBuf::from("my key"));
    let identity = refusal(Implementation::Intel, &spec);
    assert!(identity.contains("`IdentityFile`"), "{identity}");
    let open = MpiOptions {
        arguments: Some("-x 'A".to_owned()),
        ..MpiOptions::default()
    };
    let open = compose(Implementation::OpenMpi, &job("a:1", 1), &open).unwrap_err();
    assert!(open.to_string().contains("`--mpi-args=-x 'A`"), "{open}");
}

#[test]
fn hosts_without_slots_are_left_out() {
    let spec = job("a:0,b:1", 1);
    let options = MpiOptions::default();
    assert!(line(Implementation::OpenMpi, &spec, &options).contains(" -H b:1 "));
    assert!(line(Implementation::Mpich, &spec, &options).contains(" -ppn 1 -hosts b "));
}
