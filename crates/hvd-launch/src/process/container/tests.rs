//! Command lines, word by word.

use super::*;

fn host(program: &str) -> ContainerHost {
    ContainerHost {
        program: program.to_owned(),
        has_nvidia: false,
        has_amd: false,
        uid: 1000,
        gid: 100,
    }
}

fn options(image: &str, runtime: ContainerRuntime) -> ContainerOptions {
    ContainerOptions {
        image: image.to_owned(),
        runtime,
        arguments: Vec::new(),
    }
}

fn contained(options: &ContainerOptions, host: &ContainerHost) -> ContainedRank {
    let environment = [
        ("HOROVOD_RANK", "3"),
        ("_HOROVOD_SECRET", "x"),
        ("MY_SETTING", "secret"),
        ("NCCL_DEBUG", "INFO"),
        ("PATH", "/usr/bin"),
        ("PYTHONPATH", "/home/me/lib"),
        ("SSH_CONNECTION", "1 2 3 4"),
        ("odd name", "1"),
    ];
    let environment = environment
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    contain(
        options,
        host,
        &BareRank {
            command: &["python".to_owned(), "train.py".to_owned()],
            directory: Path::new("/home/me/my job"),
            environment: &environment,
            key_file: Some(Path::new("/tmp/horovod-1000-ab")),
            name: "horovod-7-3",
        },
    )
}

#[test]
fn apptainer_binds_the_directory_and_the_key_and_passes_the_rank() {
    let mut options = options("/images/train.sif", ContainerRuntime::Apptainer);
    let rank = contained(&options, &host("/usr/bin/apptainer"));
    assert_eq!(
        rank.command,
        [
            "/usr/bin/apptainer",
            "exec",
            "--bind",
            "/home/me/my job",
            "--bind",
            "/tmp/horovod-1000-ab",
            "--pwd",
            "/home/me/my job",
            "/images/train.sif",
            "python",
            "train.py"
        ]
    );
    let value = |name: &str| rank.environment.get(std::ffi::OsStr::new(name));
    assert_eq!(value("HOROVOD_RANK"), Some(&"3".into()));
    assert_eq!(value("APPTAINERENV_HOROVOD_RANK"), Some(&"3".into()));
    assert_eq!(value("APPTAINERENV__HOROVOD_SECRET"), Some(&"x".into()));
    assert_eq!(value("APPTAINERENV_PATH"), None);
    assert_eq!(value("SINGULARITYENV_HOROVOD_RANK"), None);
    assert!(!rank.holds_stdin);

    options.arguments = vec!["--cleanenv".to_owned(), "--bind=/data".to_owned()];
    let mut with_gpus = host("/opt/bin/singularity");
    (with_gpus.has_nvidia, with_gpus.has_amd) = (true, true);
    let rank = contained(&options, &with_gpus);
    assert_eq!(
        rank.command[..4],
        ["/opt/bin/singularity", "exec", "--nv", "--rocm"]
    );
    assert_eq!(
        rank.command[10..13],
        ["--cleanenv", "--bind=/data", "/images/train.sif"]
    );
    for prefix in ["APPTAINERENV_", "SINGULARITYENV_"] {
        let name = OsString::from(format!("{prefix}HOROVOD_RANK"));
        assert!(rank.environment.contains_key(&name), "{prefix}");
    }
}

#[test]
fn docker_shares_the_network_and_passes_variables_by_name() {
    let options = options("docker://me/train:1", ContainerRuntime::Docker);
    let rank = contained(&options, &host("/usr/bin/docker"));
    let (line, inside) = rank.command.split_at(19);
    assert_eq!(
        line.join("\n"),
        "/usr/bin/docker\nrun\n--rm\n-i\n--init\n--network=host\n--ipc=host\n--name=horovod-7-3\n\
         --label=horovod\n--user=1000:100\n--volume=/home/me/my job:/home/me/my job\n\
         --volume=/tmp/horovod-1000-ab:/tmp/horovod-1000-ab\n--workdir=/home/me/my job\n\
         --env=HOROVOD_RANK\n--env=MY_SETTING\n--env=NCCL_DEBUG\n--env=_HOROVOD_SECRET\n\
         me/train:1\n/bin/sh"
    );
    assert_eq!(inside[0], "-c");
    assert_eq!(inside[2..], ["horovod", "python", "train.py"]);
    assert!(!rank.command.iter().any(|word| word.contains("secret")));
    assert!(rank.holds_stdin);
}

#[test]
fn gpus_and_users_as_each_engine_wants_them() {
    let mut with_gpus = host("/usr/bin/podman");
    with_gpus.has_nvidia = true;
    let podman = contained(&options("train", ContainerRuntime::Podman), &with_gpus);
    for word in ["--userns=keep-id", "--device=nvidia.com/gpu=all"] {
        assert!(podman.command.iter().any(|other| other == word), "{word}");
    }
    with_gpus.has_amd = true;
    let docker = contained(&options("train", ContainerRuntime::Docker), &with_gpus);
    for word in ["--gpus=all", "--device=/dev/kfd", "--device=/dev/dri"] {
        assert!(docker.command.iter().any(|other| other == word), "{word}");
    }
    assert!(
        !docker
            .command
            .iter()
            .any(|word| word.starts_with("--userns"))
    );
}

#[test]
fn a_missing_program_or_image_names_what_is_missing() {
    let error = ContainerHost::look(ContainerRuntime::Apptainer, "/no/such".as_ref());
    let said = error.unwrap_err().to_string();
    assert!(
        said.contains("neither `apptainer` nor `singularity`"),
        "{said}"
    );
    let missing = options("/no/such.sif", ContainerRuntime::Apptainer);
    let said = check_image(&missing).unwrap_err().to_string();
    assert!(said.contains("`/no/such.sif` does not exist"), "{said}");
    assert!(check_image(&options("docker://x", ContainerRuntime::Apptainer)).is_ok());
    assert!(check_image(&options("x", ContainerRuntime::Docker)).is_ok());
}
