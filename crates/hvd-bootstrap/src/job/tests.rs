//! Whole jobs found by threads that stand for ranks, over what needs no launcher.

use std::path::Path;
use std::thread;

use super::*;

/// What each of `size` ranks finds with these variables and its own.
fn ranks(
    size: u32,
    common: &[(&str, String)],
    own: impl Fn(u32) -> Vec<(&'static str, String)>,
) -> Vec<Result<FoundJob>> {
    let environments: Vec<Environment> = (0..size)
        .map(|rank| {
            let common = common
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()));
            let own = own(rank)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value));
            common.chain(own).collect()
        })
        .collect();
    thread::scope(|scope| {
        let find = |environment: Environment| find(&environment, &[]).map(Option::unwrap);
        let threads: Vec<_> = environments
            .into_iter()
            .map(|environment| scope.spawn(move || find(environment)))
            .collect();
        let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
        outcomes.collect()
    })
}

fn value<'a>(job: &'a FoundJob, variable: &str) -> &'a str {
    let mut variables = job.variables().iter();
    let found = variables.find(|(name, _)| *name == variable);
    found.map_or("", |(_, value)| value.as_str())
}

fn by_file(directory: &Path, size: u32) -> Vec<Result<FoundJob>> {
    let directory = directory.to_str().unwrap().to_owned();
    let common = [
        ("HOROVOD_BOOTSTRAP_DIR", directory),
        ("SLURM_JOB_ID", "7".to_owned()),
        ("SLURM_STEP_ID", "0".to_owned()),
        ("SLURM_STEP_NUM_TASKS", size.to_string()),
    ];
    ranks(size, &common, |rank| {
        vec![("SLURM_PROCID", rank.to_string())]
    })
}

#[test]
fn ranks_find_each_other_by_a_file_and_leave_no_key_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let jobs = by_file(scratch.path(), 3);
    for (rank, job) in jobs.iter().enumerate() {
        let job = job.as_ref().unwrap();
        assert_eq!(value(job, "HOROVOD_RANK"), rank.to_string());
        assert_eq!(value(job, "HOROVOD_SIZE"), "3");
        assert_eq!(value(job, "HOROVOD_LOCAL_RANK"), rank.to_string());
        assert_eq!(value(job, "HOROVOD_CROSS_SIZE"), "1");
        assert_eq!(value(job, "HOROVOD_HOST_ADDRESSES"), "");
        let first = jobs[0].as_ref().unwrap();
        assert_eq!(
            value(job, "_HOROVOD_SECRET_KEY"),
            value(first, "_HOROVOD_SECRET_KEY")
        );
    }
    assert_eq!(scratch.path().read_dir().unwrap().count(), 0);
}

#[test]
fn virtual_nodes_try_each_other() {
    let scratch = tempfile::tempdir().unwrap();
    let common = [
        (
            "HOROVOD_BOOTSTRAP_DIR",
            scratch.path().to_str().unwrap().to_owned(),
        ),
        ("SLURM_STEP_ID", "0".to_owned()),
        ("SLURM_STEP_NUM_TASKS", "4".to_owned()),
    ];
    let jobs = ranks(4, &common, |rank| {
        let node = format!("n{}", rank / 2 + 1);
        vec![
            ("SLURM_PROCID", rank.to_string()),
            ("SLURMD_NODENAME", node),
        ]
    });
    match &jobs[3] {
        Ok(job) => {
            assert_eq!(value(job, "HOROVOD_LOCAL_RANK"), "1");
            assert_eq!(value(job, "HOROVOD_CROSS_RANK"), "1");
            assert!(value(job, "HOROVOD_HOST_ADDRESSES").starts_with("n1="));
        }
        // A machine without any network but loopback: then all ranks say so.
        Err(error) => {
            assert!(matches!(error, Error::Routes(_)), "{error}");
            assert!(jobs.iter().all(Result::is_err));
        }
    }
}

#[test]
fn ranks_find_each_other_where_they_were_told_to() {
    let scratch = tempfile::tempdir().unwrap();
    let key = scratch.path().join("key");
    std::fs::write(&key, JobKey::generate().unwrap().to_hex()).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let common = [
        ("HOROVOD_SIZE", "2".to_owned()),
        ("HOROVOD_RENDEZVOUS_ADDR", "127.0.0.1".to_owned()),
        ("HOROVOD_RENDEZVOUS_PORT", port.to_string()),
        ("HOROVOD_SECRET_KEY_FILE", key.to_str().unwrap().to_owned()),
    ];
    let jobs = ranks(2, &common, |rank| vec![("HOROVOD_RANK", rank.to_string())]);
    for job in &jobs {
        let job = job.as_ref().unwrap();
        assert_eq!(value(job, "HOROVOD_LOCAL_SIZE"), "2");
        assert_eq!(value(job, "HOROVOD_GLOO_RENDEZVOUS_PORT"), port.to_string());
    }
    let without_key = [
        ("HOROVOD_RANK", "0"),
        ("HOROVOD_SIZE", "2"),
        ("HOROVOD_RENDEZVOUS_ADDR", "x"),
    ];
    let text = find(&without_key.into_iter().collect(), &[])
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("HOROVOD_RENDEZVOUS_PORT is not set although"),
        "{text}"
    );
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let common = [
        (
            "HOROVOD_BOOTSTRAP_DIR",
            scratch.path().to_str().unwrap().to_owned(),
        ),
        ("HOROVOD_GLOO_TIMEOUT_SECONDS", "1".to_owned()),
        ("SLURM_STEP_ID", "0".to_owned()),
        ("SLURM_STEP_NUM_TASKS", "3".to_owned()),
    ];
    let jobs = ranks(2, &common, |rank| vec![("SLURM_PROCID", rank.to_string())]);
    let texts: Vec<String> = jobs
        .into_iter()
        .map(|job| job.unwrap_err().to_string())
        .collect();
    let is_named = |text: &String| {
        text.contains("waited 1 s for 1 ranks (2)")
            && text.contains("a container may hide the variables of `srun`")
    };
    // Whoever is second may find that the first has given up.
    assert!(texts.iter().any(is_named), "{texts:?}");
    let is_told = |text: &String| is_named(text) || text.contains("when rank 0, which serves");
    assert!(texts.iter().all(is_told), "{texts:?}");
}

#[test]
fn a_launcher_that_offers_nothing_is_told_from_one_that_does() {
    let alone = [
        ("HOROVOD_RANK", "0"),
        ("HOROVOD_SIZE", "2"),
        ("HOME", "/nonexistent"),
    ];
    let error = find(&alone.into_iter().collect(), &[]).unwrap_err();
    assert!(error.is_configuration(), "{error}");
    assert!(
        error.to_string().contains("Set HOROVOD_BOOTSTRAP_DIR"),
        "{error}"
    );
}

#[test]
fn some_of_the_ranks_make_a_job_of_their_own() {
    let scratch = tempfile::tempdir().unwrap();
    let of = |rank: u32| -> Environment {
        let rank = rank.to_string();
        [
            ("HOROVOD_BOOTSTRAP_DIR", scratch.path().to_str().unwrap()),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_PROCID", &rank),
        ]
        .into_iter()
        .collect()
    };
    let (three, one) = (of(3), of(1));
    let (first, second) = thread::scope(|scope| {
        let waiting = scope.spawn(|| find_subset(&one, &[3, 1]).unwrap());
        let first = find_subset(&three, &[3, 1]).unwrap();
        (first, waiting.join().unwrap())
    });
    assert_eq!(
        (value(&first, "HOROVOD_RANK"), value(&first, "HOROVOD_SIZE")),
        ("0", "2")
    );
    assert_eq!(value(&second, "HOROVOD_RANK"), "1");
}

#[test]
fn an_announced_job_is_joined() {
    let environment = Environment::default();
    let (announced, text) = announce(&environment).unwrap();
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(|| join(&environment, Rank::new(1), 2, None, &text).unwrap());
        let first = join(&environment, Rank::new(0), 2, Some(announced), &text).unwrap();
        (first, second.join().unwrap())
    });
    assert_eq!(value(&first, "HOROVOD_LOCAL_SIZE"), "2");
    assert_eq!(value(&second, "HOROVOD_RANK"), "1");
}
