//! Attempts to join that come to nothing: the others never succeed with a rank that is not there,
//! and the job can still be joined by all.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hvd_config::{Environment, WorkerConfig};
use hvd_rendezvous::{Client, Error as StoreError, JobKey, MemoryStore, Server, Store, blame};
use hvd_testkit::run_ranks;
use hvd_transport::testing::options;
use hvd_transport::{
    Abort, Error, Failure, Interest, Mesh, MeshOptions, Result, TransportKind, connect, join,
    join_until,
};
use hvd_types::Rank;

const TIMEOUT: Duration = Duration::from_secs(20);
const SIZE: usize = 3;
const QUITTER: Rank = Rank::new(1);

type StoreResult<T> = std::result::Result<T, StoreError>;

fn interruption() -> Failure {
    Failure {
        rank: QUITTER,
        host: "localhost".into(),
        reason: "gave up its init(), which was interrupted".into(),
    }
}

/// The settings that the launcher would give a rank.
fn config(rank: usize, server: &Server, key: &JobKey) -> WorkerConfig {
    let environment: Environment = [
        ("HOROVOD_RANK", rank.to_string()),
        ("HOROVOD_SIZE", SIZE.to_string()),
        ("HOROVOD_LOCAL_RANK", rank.to_string()),
        ("HOROVOD_LOCAL_SIZE", SIZE.to_string()),
        ("HOROVOD_CROSS_RANK", 0.to_string()),
        ("HOROVOD_CROSS_SIZE", 1.to_string()),
        ("HOROVOD_HOSTNAME", "localhost".to_owned()),
        ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1".to_owned()),
        (
            "HOROVOD_GLOO_RENDEZVOUS_PORT",
            server.address().port().to_string(),
        ),
        ("_HOROVOD_SECRET_KEY", key.to_hex()),
    ]
    .into_iter()
    .collect();
    WorkerConfig::read(&environment).unwrap()
}

fn start(config: WorkerConfig, abort: &Abort) -> JoinHandle<Result<Mesh>> {
    let abort = abort.clone();
    std::thread::Builder::new()
        .name("hvd-test-rank".into())
        .spawn(move || connect(&config, None, &abort))
        .unwrap()
}

/// Waits until exactly these ranks are missing, as seen by the last one.
fn wait_until_missing(server: &Server, key: &JobKey, expected: &[u32]) {
    let end = Instant::now() + TIMEOUT;
    let expected: Vec<Rank> = expected.iter().copied().map(Rank::new).collect();
    let port = server.address().port();
    let mut client = Client::connect("127.0.0.1", port, key, TIMEOUT).unwrap();
    loop {
        let moment = Duration::from_millis(5);
        let visit = client.exchange("init()", Rank::from_index(SIZE - 1), SIZE, b"", moment);
        match visit.unwrap_err() {
            StoreError::MissingRanks { missing, .. } if missing == expected => return,
            StoreError::MissingRanks { .. } => {}
            other => unreachable!("{other}"),
        }
        assert!(Instant::now() < end, "never missing: {expected:?}");
    }
}

#[test]
fn an_interrupted_rank_is_not_met_and_its_next_attempt_is() {
    let key = JobKey::generate().unwrap();
    let server = Server::start("127.0.0.1:0", &key).unwrap();
    // A rank that failed before has come more often than the others.
    for _ in 0..3 {
        let abort = Abort::new();
        let attempt = start(config(QUITTER.index(), &server, &key), &abort);
        wait_until_missing(&server, &key, &[0]);
        abort.raise(interruption());
        let error = attempt.join().unwrap().unwrap_err().to_string();
        assert_eq!(error, interruption().to_string());
    }
    let first = start(config(0, &server, &key), &Abort::new());
    wait_until_missing(&server, &key, &[1]);
    assert!(
        !first.is_finished(),
        "rank 0 has met an attempt that is over"
    );
    let others = [1, 2].map(|rank| start(config(rank, &server, &key), &Abort::new()));
    first.join().unwrap().unwrap();
    for other in others {
        other.join().unwrap().unwrap();
    }
}

/// What a rank does when it comes to an exchange.
type Trick = fn(&mut Tricky, &str) -> StoreResult<()>;

/// A store that lets a test make a rank fail at a certain point.
struct Tricky {
    store: MemoryStore,
    abort: Abort,
    /// What happens before an exchange, and after.
    tricks: [Trick; 2],
}

const NOTHING: Trick = |_, _| Ok(());

impl Store for Tricky {
    fn put(&mut self, key: &str, value: &[u8]) -> StoreResult<()> {
        self.store.put(key, value)
    }

    fn get(&mut self, key: &str, timeout: Duration) -> StoreResult<Vec<u8>> {
        self.store.get(key, timeout)
    }

    fn exchange(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        timeout: Duration,
    ) -> StoreResult<Vec<Vec<u8>>> {
        let [before, after] = self.tricks;
        before(self, scope)?;
        let values = self.store.exchange(scope, rank, size, value, timeout)?;
        after(self, scope)?;
        Ok(values)
    }

    fn leave(&mut self, scope: &str, rank: Rank, reason: &str) -> StoreResult<()> {
        self.store.leave(scope, rank, reason)
    }

    fn number(&mut self) -> StoreResult<u64> {
        self.store.number()
    }
}

fn join_with_tricks(
    options: &MeshOptions,
    store: &MemoryStore,
    tricks: [Trick; 2],
) -> Result<Mesh> {
    let abort = Abort::new();
    let mut store = Tricky {
        store: store.clone(),
        abort: abort.clone(),
        tricks,
    };
    join_until(options, &mut store, &abort)
}

#[test]
fn mesh_1b_a_rank_that_gives_up_between_the_exchanges_is_waited_for_again() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let start = Instant::now();
    run_ranks(SIZE, move |rank| {
        let options = options(rank.index(), SIZE, &key, TransportKind::Auto, TIMEOUT);
        if rank == QUITTER {
            let fail: Trick = |_, scope| match scope {
                "init()" => Ok(()),
                _ => Err(StoreError::Stopped),
            };
            join_with_tricks(&options, &store, [fail, NOTHING]).unwrap_err();
        }
        join(&options, &mut store.clone()).unwrap();
    });
    assert!(start.elapsed() < TIMEOUT / 2, "{:?}", start.elapsed());
}

#[test]
fn a_rank_that_gives_up_before_its_lifeline_is_named_by_all_at_once() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let start = Instant::now();
    run_ranks(SIZE, move |rank| {
        let options = options(rank.index(), SIZE, &key, TransportKind::Auto, TIMEOUT);
        if rank == QUITTER {
            let interrupt: Trick = |tricky, scope| {
                if scope.ends_with("memory") {
                    tricky.abort.raise(interruption());
                }
                Ok(())
            };
            join_with_tricks(&options, &store, [NOTHING, interrupt]).unwrap_err();
            return;
        }
        match join(&options, &mut store.clone()) {
            Ok(mut mesh) => assert_eq!(wait_for_abort(&mut mesh), interruption()),
            Err(Error::PeerLost(failure)) => assert_eq!(failure, interruption()),
            Err(other) => unreachable!("{other}"),
        }
    });
    assert!(start.elapsed() < TIMEOUT / 2, "{:?}", start.elapsed());
}

fn wait_for_abort(mesh: &mut Mesh) -> Failure {
    let end = Instant::now() + TIMEOUT;
    let interest = || Interest::Control { unsent: &[] };
    while mesh.transport.wait(interest(), Some(end)).is_ok() {
        assert!(Instant::now() < end, "nothing was heard");
    }
    mesh.abort.cause().unwrap().clone()
}

#[test]
fn a_rank_that_has_ended_is_blamed_and_not_waited_for() {
    let key = JobKey::generate().unwrap();
    let server = Server::start("127.0.0.1:0", &key).unwrap();
    let waiting = start(config(0, &server, &key), &Abort::new());
    server.end_rank(QUITTER, "on host `h` exited with code 0");
    let error = waiting.join().unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with("rank 1 on host `h` exited with code 0"),
        "{error}"
    );
    let note = server.get(&blame::key(Rank::new(0))).unwrap();
    assert_eq!(blame::culprit(&note), Some(QUITTER));
}
