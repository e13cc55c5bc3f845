//! Joining and leaving: again and again, strangers, deaths.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hvd_rendezvous::{JobKey, MemoryStore, Result as StoreResult, Store};
use hvd_testkit::{run_ranks, run_ranks_with};
use hvd_transport::testing::{Wire, mesh_of, options};
use hvd_transport::{
    Failure, Interest, Lane, Membership, Mesh, MeshOptions, MessagePair, TransportKind, join,
};
use hvd_types::{Placement, Rank};

const TIMEOUT: Duration = Duration::from_secs(20);
const REAL: [Wire; 6] = [
    Wire::SharedMemory,
    Wire::Tcp,
    Wire::Encrypted,
    Wire::Mixed,
    Wire::Fabric,
    Wire::FarFabric,
];

/// Waits for the job's end and returns its cause.
fn wait_for_abort(mesh: &mut Mesh) -> Failure {
    let end = Instant::now() + TIMEOUT;
    while mesh
        .transport
        .wait(Interest::Control { unsent: &[] }, Some(end))
        .is_ok()
    {
        assert!(
            Instant::now() < end,
            "rank {} received nothing",
            mesh.transport.rank()
        );
    }
    mesh.abort.cause().unwrap().clone()
}

/// Says hello to both neighbours.
fn greet(mesh: &mut Mesh) {
    let (rank, size) = (mesh.transport.rank().index(), mesh.transport.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut greeting = [0];
    let send = [rank.to_le_bytes()[0]];
    let left = Rank::from_index(left);
    mesh.transport
        .exchange(
            Some((Rank::from_index(right), &send)),
            Some((left, &mut greeting)),
        )
        .unwrap();
    assert_eq!(usize::from(greeting[0]), left.index());
}

#[test]
fn one_rank_needs_no_other() {
    let key = JobKey::generate().unwrap();
    let options = options(0, 1, &key, TransportKind::Auto, TIMEOUT);
    let mesh = join(&options, &mut MemoryStore::new()).unwrap();
    assert_eq!((mesh.transport.size(), mesh.topology.size()), (1, 1));
    assert!(mesh.lifeline.is_none());
}

#[test]
fn auto_takes_shared_memory_on_one_host() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let kinds = run_ranks(3, move |rank| {
        let options = options(rank.index(), 3, &key, TransportKind::Auto, TIMEOUT);
        let mut mesh = join(&options, &mut store.clone()).unwrap();
        greet(&mut mesh);
        (mesh.transport.kind(), mesh.fallback_reason.clone())
    });
    assert_eq!(kinds, vec![("shared memory", None); 3]);
}

#[test]
fn mesh_1_a_job_can_be_joined_a_hundred_times() {
    for kind in [TransportKind::SharedMemory, TransportKind::Tcp] {
        let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
        run_ranks(3, move |rank| {
            for _ in 0..100 {
                let options = options(rank.index(), 3, &key, kind, TIMEOUT);
                greet(&mut join(&options, &mut store.clone()).unwrap());
            }
        });
    }
}

#[test]
fn mesh_2_a_rank_that_does_not_come_is_named() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let errors = run_ranks(2, move |rank| {
        let options = options(rank.index(), 3, &key, TransportKind::Tcp, TIMEOUT);
        let options = MeshOptions {
            timeout: Duration::from_millis(100),
            ..options
        };
        join(&options, &mut store.clone()).unwrap_err().to_string()
    });
    for error in errors {
        assert_eq!(error, "rank 2 of 3 did not come to `init()` within 0 s");
    }
}

#[test]
fn ranks_have_to_agree_on_the_transport() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let errors = run_ranks(2, move |rank| {
        let kind = [TransportKind::Auto, TransportKind::Tcp][rank.index()];
        let options = options(rank.index(), 2, &key, kind, TIMEOUT);
        join(&options, &mut store.clone()).unwrap_err().to_string()
    });
    assert!(
        errors[0].contains("`Auto`, rank 1 on `localhost` `Tcp`"),
        "{}",
        errors[0]
    );
}

/// A store that lets the test see, or change, what a rank says.
struct Bent<F> {
    store: MemoryStore,
    bend: F,
}

impl<F: FnMut(&str, &str) -> String + Send> Store for Bent<F> {
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
        let text = (self.bend)(scope, std::str::from_utf8(value).unwrap());
        self.store
            .exchange(scope, rank, size, text.as_bytes(), timeout)
    }

    fn leave(&mut self, scope: &str, rank: Rank, reason: &str) -> StoreResult<()> {
        self.store.leave(scope, rank, reason)
    }

    fn number(&mut self) -> StoreResult<u64> {
        self.store.number()
    }
}

/// Joins three ranks, of which rank 1 says what `bend` makes of it, and returns what they use.
fn join_bent(
    kind: TransportKind,
    bend: fn(&str, &str) -> String,
) -> Vec<Result<(&'static str, Option<String>), String>> {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    run_ranks(3, move |rank| {
        let honest: fn(&str, &str) -> String = |_, text| text.to_owned();
        let bend = if rank.number() == 1 { bend } else { honest };
        let options = options(rank.index(), 3, &key, kind, TIMEOUT);
        let mut store = Bent {
            store: store.clone(),
            bend,
        };
        let mut mesh = join(&options, &mut store).map_err(|error| error.to_string())?;
        greet(&mut mesh);
        Ok((mesh.transport.kind(), mesh.fallback_reason.clone()))
    })
}

/// Rank 1 claims to be on another host.
fn elsewhere(scope: &str, text: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if scope == "init()" {
        lines[1] = "node-b";
        lines[2] = "another boot";
    }
    lines.join("\n")
}

/// Rank 1 claims that it got no memory.
fn without_memory(scope: &str, text: &str) -> String {
    if scope.ends_with("/memory") {
        "out of files".to_owned()
    } else {
        text.to_owned()
    }
}

#[test]
fn each_pair_of_ranks_uses_memory_if_it_shares_some() {
    let kinds = join_bent(TransportKind::Auto, elsewhere);
    let both = Ok(("shared memory and tcp", None));
    assert_eq!(kinds, [both.clone(), Ok(("tcp", None)), both]);
    let refusal = "rank 0 on `localhost` and rank 1 on `node-b` share no memory";
    for outcome in join_bent(TransportKind::SharedMemory, elsewhere) {
        assert!(outcome.unwrap_err().contains(refusal));
    }
}

#[test]
fn a_host_without_memory_leaves_that_of_others_alone() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let kinds = run_ranks(4, move |rank| {
        let mut options = options(rank.index(), 4, &key, TransportKind::Auto, TIMEOUT);
        ["a", "b"][rank.index() % 2].clone_into(&mut options.placement.hostname);
        let honest: fn(&str, &str) -> String = |_, text| text.to_owned();
        let bend = if rank.number() == 3 {
            without_memory
        } else {
            honest
        };
        let store = store.clone();
        let mut mesh = join(&options, &mut Bent { store, bend }).unwrap();
        greet(&mut mesh);
        (mesh.transport.kind(), mesh.fallback_reason.clone())
    });
    let fallback_reason = "using TCP: rank 3 has no shared memory: out of files".to_owned();
    let (with, without) = (
        ("shared memory and tcp", None),
        ("tcp", Some(fallback_reason)),
    );
    assert_eq!(kinds, [with.clone(), without.clone(), with, without]);
}

#[test]
fn one_rank_without_shared_memory_moves_all_to_tcp() {
    let fallback_reason = "using TCP: rank 1 has no shared memory: out of files";
    for outcome in join_bent(TransportKind::Auto, without_memory) {
        assert_eq!(outcome, Ok(("tcp", Some(fallback_reason.to_owned()))));
    }
    for outcome in join_bent(TransportKind::SharedMemory, without_memory) {
        assert!(
            outcome
                .unwrap_err()
                .contains("rank 1 has no shared memory: out of files")
        );
    }
}

#[test]
fn mesh_3_strangers_at_the_port_delay_no_rank() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let start = Instant::now();
    run_ranks(3, move |rank| {
        let options = options(rank.index(), 3, &key, TransportKind::Tcp, TIMEOUT);
        let mut strangers = Vec::new();
        let bend = |_: &str, text: &str| {
            let address = text.lines().next().unwrap();
            for bytes in [
                &b""[..],
                b"GET / HTTP/1.1\r\n\r\n",
                b"HVDR\x01\x04",
                &[0xff; 5000],
            ] {
                let mut stranger = TcpStream::connect(address).unwrap();
                stranger.write_all(bytes).unwrap();
                strangers.push(stranger);
            }
            text.to_owned()
        };
        greet(
            &mut join(
                &options,
                &mut Bent {
                    store: store.clone(),
                    bend,
                },
            )
            .unwrap(),
        );
        assert_eq!(strangers.len(), 4);
    });
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_rank_with_another_key_is_refused() {
    let store = MemoryStore::new();
    let errors = run_ranks(2, move |rank| {
        let key = JobKey::generate().unwrap();
        let options = options(rank.index(), 2, &key, TransportKind::Tcp, TIMEOUT);
        let options = MeshOptions {
            timeout: Duration::from_millis(500),
            ..options
        };
        join(&options, &mut store.clone()).unwrap_err().to_string()
    });
    assert!(
        errors[0].contains("rank 1 on host `localhost` did not connect"),
        "{}",
        errors[0]
    );
    assert!(
        errors[1].contains("cannot reach rank 0 on host `localhost`"),
        "{}",
        errors[1]
    );
    assert!(
        errors[1].contains("does not know the key of this job"),
        "{}",
        errors[1]
    );
}

#[test]
fn a_member_that_ends_without_an_agreed_shutdown_is_a_failure() {
    for wire in REAL {
        for leaver in [0, 2] {
            let causes = run_ranks_with(mesh_of(wire, 3), move |rank, mut mesh: Mesh| {
                let placement = Placement {
                    rank,
                    hostname: "node".into(),
                    ..Placement::alone()
                };
                let membership = Membership::new(&placement, mesh.lifeline.take());
                if rank.number() == leaver {
                    return None;
                }
                let cause = wait_for_abort(&mut mesh);
                membership.leave();
                Some(cause.to_string())
            });
            let expected = format!(
                "rank {leaver} on host `node` left the job before all ranks had agreed to shut down"
            );
            for cause in causes.into_iter().flatten() {
                assert_eq!(cause, expected, "{wire:?}");
            }
        }
    }
}

#[test]
fn a_dead_rank_is_named_by_all_survivors_within_a_second() {
    for wire in REAL {
        for dead in [0, 1, 3] {
            let start = Instant::now();
            let causes = run_ranks_with(mesh_of(wire, 4), move |rank, mut mesh: Mesh| {
                if rank.number() == dead {
                    mesh.lifeline.take().unwrap().sever();
                    None
                } else {
                    Some(wait_for_abort(&mut mesh))
                }
            });
            assert!(
                start.elapsed() < Duration::from_secs(1),
                "{wire:?}: {:?}",
                start.elapsed()
            );
            for cause in causes.into_iter().flatten() {
                assert_eq!(cause.rank.number(), dead, "{wire:?}: {cause}");
                assert!(cause.to_string().contains("without a goodbye"), "{cause}");
            }
        }
    }
}

#[test]
fn a_reported_failure_reaches_every_rank() {
    for wire in REAL {
        let causes = run_ranks_with(mesh_of(wire, 4), |rank, mut mesh: Mesh| {
            if rank.number() == 2 {
                let reason = "ran out of memory".to_owned();
                let failure = Failure {
                    rank,
                    host: "localhost".into(),
                    reason,
                };
                mesh.lifeline.as_ref().unwrap().report(failure);
            }
            wait_for_abort(&mut mesh)
        });
        for cause in causes {
            assert_eq!(
                cause.to_string(),
                "rank 2 on host `localhost` ran out of memory"
            );
        }
    }
}

#[test]
fn leaving_in_peace_is_no_failure() {
    for wire in REAL {
        // When a rank leaves, the rest go on; the last message of a leaver still arrives.
        let aborts = run_ranks_with(mesh_of(wire, 4), |rank, mut mesh: Mesh| {
            let (mut word, next) = ([0; 3], Rank::new(rank.number() + 1));
            if let Some(previous) = rank.number().checked_sub(1) {
                mesh.transport.recv(Rank::new(previous), &mut word).unwrap();
            }
            if next.number() < 4 {
                mesh.transport.send(next, b"bye").unwrap();
            }
            let soon = Instant::now() + Duration::from_millis(20);
            let idle = Interest::Control { unsent: &[] };
            while Instant::now() < soon && mesh.transport.wait(idle, Some(soon)).is_ok() {}
            mesh.abort.cause().cloned()
        });
        assert_eq!(aborts, vec![None; 4], "{wire:?}");
    }
}

#[test]
fn needing_a_peer_that_left_is_an_error_naming_it() {
    let outcomes = run_ranks_with(mesh_of(Wire::Tcp, 2), |rank, mut mesh: Mesh| {
        if rank.number() == 1 {
            return String::new();
        }
        mesh.transport
            .recv(Rank::new(1), &mut [0; 4])
            .unwrap_err()
            .to_string()
    });
    assert!(
        outcomes[0].contains("rank 1 on host `localhost` closed"),
        "{}",
        outcomes[0]
    );
}

#[test]
fn a_message_that_does_not_come_ends_with_the_rank_that_failed() {
    let failures = run_ranks_with(mesh_of(Wire::FarFabric, 3), |rank, mut mesh| {
        let members = [0, 1, 2].map(Rank::new);
        if rank == Rank::new(2) {
            mesh.lifeline.take().unwrap().sever();
            return String::new();
        }
        let (to, from) = (Rank::new(1 - rank.number()), Rank::new(2));
        let messages = MessagePair {
            to,
            bytes: b"a message",
            from,
            length: 9,
        };
        let wire = mesh.transport.messages(&members).unwrap();
        let failure = wire.exchange_messages(messages, &mut |_, _| ());
        failure.unwrap_err().to_string()
    });
    for failure in &failures[..2] {
        assert!(failure.contains("rank 2"), "{failure}");
    }
}

/// Others get an address of rank 1 at which nothing listens.
fn unreachable(scope: &str, text: &str) -> String {
    let (_, rest) = text.split_once('\n').unwrap_or_default();
    if scope == "init()" {
        format!("127.0.0.1:1\n{rest}")
    } else {
        text.to_owned()
    }
}

#[test]
fn late_2_a_rank_that_cannot_be_reached_when_it_is_needed_is_named() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let outcomes = run_ranks(2, move |rank| {
        let options = options(rank.index(), 2, &key, TransportKind::Tcp, TIMEOUT);
        let honest: fn(&str, &str) -> String = |_, text| text.to_owned();
        let bend = [honest, unreachable][rank.index()];
        let store = store.clone();
        let mut mesh = join(&options, &mut Bent { store, bend }).unwrap();
        if rank == Rank::COORDINATOR {
            let error = mesh.transport.send(Rank::new(1), b"word").unwrap_err();
            let cause = mesh.abort.cause().unwrap().clone();
            mesh.lifeline.as_ref().unwrap().report(cause);
            return error.to_string();
        }
        let error = mesh.transport.recv(Rank::new(0), &mut [0; 4]);
        error.unwrap_err().to_string()
    });
    let expected = "rank 1 on host `localhost` could not be reached by rank 0 on host `localhost`: \
                    cannot connect the ranks of the job: cannot reach rank 1 on host `localhost` at \
                    127.0.0.1:1: ";
    for outcome in outcomes {
        assert!(outcome.starts_with(expected), "{outcome}");
    }
}

#[test]
fn connections_are_made_when_they_are_first_needed() {
    let counts = run_ranks_with(mesh_of(Wire::Tcp, 6), |_, mut mesh: Mesh| {
        let before = mesh.transport.connections().get();
        for _ in 0..3 {
            greet(&mut mesh);
        }
        let after = mesh.transport.connections().get();
        (before, after, mesh)
    });
    for (before, after, _mesh) in counts {
        assert_eq!((before, after), (0, 2), "one to each neighbour");
    }
}

#[test]
fn claim_1_ranks_that_need_each_other_at_once_use_the_same_connections() {
    for _ in 0..20 {
        let counts = run_ranks_with(mesh_of(Wire::Tcp, 4), |rank, mut mesh: Mesh| {
            for distance in 1..4 {
                let peer = Rank::from_index(rank.index() ^ distance);
                let mut word = [0; 4];
                let text = rank.number().to_le_bytes();
                let both = (Some((peer, &text[..])), Some((peer, &mut word[..])));
                mesh.transport.exchange(both.0, both.1).unwrap();
                assert_eq!(word, peer.number().to_le_bytes());
            }
            (mesh.transport.connections().get(), mesh)
        });
        assert!(counts.iter().all(|(count, _)| *count == 3));
    }
}

#[test]
fn a_closed_control_connection_does_not_keep_a_waiter_busy() {
    let mut ends = mesh_of(Wire::Tcp, 3);
    drop(ends.pop());
    let (mut wakes, end) = (0, Instant::now() + Duration::from_millis(100));
    let interest = Interest::Control { unsent: &[] };
    while Instant::now() < end {
        ends[1].transport.wait(interest, Some(end)).unwrap();
        wakes += 1;
    }
    assert!(wakes < 20, "{wakes} wakes");
    assert_eq!(
        ends[1]
            .transport
            .try_recv(Rank::new(2), Lane::Control, &mut [0])
            .unwrap(),
        0
    );
}
