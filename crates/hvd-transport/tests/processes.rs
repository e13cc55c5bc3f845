//! Ranks as processes: the store over a socket, shared memory handed from one process to the
//! others, routes to other hosts, the key in a file, and a rank that is killed.
//!
//! The test starts its own binary once per rank, with `a_rank` as the only test to run, and
//! tells it who it is on standard input.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hvd_config::{Environment, WorkerConfig};
use hvd_rendezvous::{Client, JobKey, Server};
use hvd_transport::testing::options;
use hvd_transport::{Abort, Interest, Mesh, TransportKind, connect, join};
use hvd_types::Rank;

const TIMEOUT: Duration = Duration::from_secs(20);
const SIZE: usize = 3;

/// A rank's process; killed when the test ends, however it ends.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(rank: usize, kind: &str, server: &Server, key: &JobKey) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_rank", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (port, key) = (server.address().port(), key.to_hex());
        writeln!(child.stdin.take().unwrap(), "{rank} {kind} {port} {key}").unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// The rest of the next line that contains `mark`; the rank's own deadlines bound the wait.
    fn line(&mut self, mark: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "no line with `{mark}`"
            );
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_killed_process_is_named_by_the_others_at_once() {
    for (kind, name) in [
        ("shared", "shared memory"),
        ("tcp", "tcp"),
        ("mixed", "shared memory and tcp"),
    ] {
        for dead in [0, 2] {
            let key = JobKey::generate().unwrap();
            let server = Server::start("127.0.0.1:0", &key).unwrap();
            let mut ranks: Vec<Process> = (0..SIZE)
                .map(|rank| Process::start(rank, kind, &server, &key))
                .collect();
            for rank in &mut ranks {
                let used = rank.line("connected by ");
                // A rank alone on its host shares no memory.
                assert!(used == name || (kind == "mixed" && used == "tcp"), "{used}");
            }
            let start = Instant::now();
            ranks[dead].child.kill().unwrap();
            for rank in (0..SIZE).filter(|&rank| rank != dead) {
                let cause = ranks[rank].line("ended because ");
                let host = host_of(dead, kind);
                let expected =
                    format!("rank {dead} on host `{host}` closed its connection without a goodbye");
                assert_eq!(cause, expected);
            }
            assert!(
                start.elapsed() < Duration::from_secs(2),
                "{:?}",
                start.elapsed()
            );
        }
    }
}

/// Rank 0 has a host of its own if there are several.
fn host_of(rank: usize, kind: &str) -> &'static str {
    match (kind, rank) {
        ("mixed", 0) => "node-a",
        ("mixed", _) => "node-b",
        _ => "localhost",
    }
}

fn join_by_options(rank: usize, kind: TransportKind, port: &str, key: &str) -> Mesh {
    let key = JobKey::from_hex(key).unwrap();
    let mut store = Client::connect("127.0.0.1", port.parse().unwrap(), &key, TIMEOUT).unwrap();
    join(&options(rank, SIZE, &key, kind, TIMEOUT), &mut store).unwrap()
}

/// As the launcher would start it: one rank on a first host, the others on a second.
fn join_by_environment(rank: usize, port: &str, key: &str) -> Mesh {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, key).unwrap();
    let (local_rank, local_size, routes) = match rank {
        0 => (0, 1, "node-b=127.0.0.3"),
        _ => (rank - 1, SIZE - 1, "node-a=127.0.0.2"),
    };
    let environment: Environment = [
        ("HOROVOD_RANK", rank.to_string()),
        ("HOROVOD_SIZE", SIZE.to_string()),
        ("HOROVOD_LOCAL_RANK", local_rank.to_string()),
        ("HOROVOD_LOCAL_SIZE", local_size.to_string()),
        ("HOROVOD_CROSS_RANK", rank.min(1).to_string()),
        ("HOROVOD_CROSS_SIZE", 2.to_string()),
        ("HOROVOD_HOSTNAME", host_of(rank, "mixed").to_owned()),
        ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1".to_owned()),
        ("HOROVOD_GLOO_RENDEZVOUS_PORT", port.to_owned()),
        ("HOROVOD_SECRET_KEY_FILE", file.display().to_string()),
        ("HOROVOD_HOST_ADDRESSES", routes.to_owned()),
    ]
    .into_iter()
    .collect();
    let config = WorkerConfig::read(&environment).unwrap();
    connect(&config, None, &Abort::new()).unwrap()
}

/// One rank of the test above; nothing by itself.
#[test]
#[ignore = "run by another test"]
fn a_rank() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let [rank, kind, port, key] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        return;
    };
    let rank = rank.parse().unwrap();
    let mut mesh = match kind {
        "mixed" => join_by_environment(rank, port, key),
        "tcp" => join_by_options(rank, TransportKind::Tcp, port, key),
        _ => join_by_options(rank, TransportKind::SharedMemory, port, key),
    };

    let right = Rank::from_index((rank + 1) % SIZE);
    let left = Rank::from_index((rank + SIZE - 1) % SIZE);
    let (sent, mut received) = (
        vec![right.number().to_le_bytes()[0]; 3 << 20],
        vec![0; 3 << 20],
    );
    mesh.transport
        .exchange(Some((right, &sent)), Some((left, &mut received)))
        .unwrap();
    assert!(received.iter().all(|&byte| usize::from(byte) == rank));
    println!("connected by {}", mesh.transport.kind());

    let end = Instant::now() + TIMEOUT;
    while mesh
        .transport
        .wait(Interest::Control { unsent: &[] }, Some(end))
        .is_ok()
    {
        assert!(Instant::now() < end);
    }
    println!("ended because {}", mesh.abort.cause().unwrap());
}
