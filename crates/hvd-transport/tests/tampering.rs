//! A proxy between two ranks changes, drops, repeats, reorders and replays records: on every kind of
//! connection this ends in an error that names a rank, its host and the connection, and every byte
//! that is received is the byte that was sent.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use hvd_rendezvous::{JobKey, MemoryStore, Purpose, Result as StoreResult, Store};
use hvd_testkit::{Attack, Direction, Tampering, TamperingProxy, run_ranks_with};
use hvd_transport::testing::options;
use hvd_transport::{Encryption, Interest, Lane, Mesh, MeshOptions, Result, TransportKind, join};
use hvd_types::Rank;

/// A store that replaces every rank's address by that of a proxy.
struct Diverted {
    store: MemoryStore,
    proxy: TamperingProxy,
}

impl Store for Diverted {
    fn put(&mut self, key: &str, value: &[u8]) -> StoreResult<()> {
        self.store.put(key, value)
    }

    fn get(&mut self, key: &str, timeout: Duration) -> StoreResult<Vec<u8>> {
        self.store.get(key, timeout)
    }

    fn number(&mut self) -> StoreResult<u64> {
        self.store.number()
    }

    fn leave(&mut self, scope: &str, rank: Rank, reason: &str) -> StoreResult<()> {
        self.store.leave(scope, rank, reason)
    }

    fn exchange(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        timeout: Duration,
    ) -> StoreResult<Vec<Vec<u8>>> {
        let mut values = self.store.exchange(scope, rank, size, value, timeout)?;
        for value in &mut values {
            let text = String::from_utf8(value.clone()).unwrap();
            let (address, rest) = text.split_once('\n').unwrap();
            if let Ok(address) = address.parse::<SocketAddr>() {
                let bind = "127.0.0.1:0".parse().unwrap();
                let changed = self.proxy.in_front_of(address, bind).unwrap();
                *value = format!("{changed}\n{rest}").into_bytes();
            }
        }
        Ok(values)
    }
}

fn letter(rank: Rank, round: usize) -> u8 {
    (rank.index() * 100 + round).to_le_bytes()[0]
}

/// Sends letters to the other rank and compares what comes back, until something goes wrong or
/// `is_enough` says so to both ranks.
fn talk(mesh: &mut Mesh, lane: Lane, end: Instant, is_enough: &dyn Fn() -> bool) -> Result<()> {
    let own = mesh.transport.rank();
    let other = Rank::from_index(1 - own.index());
    for round in 0.. {
        if is_enough() {
            break;
        }
        assert!(Instant::now() < end, "rank {own} noticed nothing");
        let outgoing = [letter(own, round); 700];
        let mut incoming = [0; 700];
        match lane {
            Lane::Data => {
                let (send, recv) = (
                    Some((other, &outgoing[..])),
                    Some((other, &mut incoming[..])),
                );
                mesh.transport.exchange(send, recv)?;
            }
            Lane::Control => talk_control(mesh, other, &outgoing, &mut incoming)?,
        }
        assert_eq!(
            incoming,
            [letter(other, round); 700],
            "changed bytes were taken for true"
        );
    }
    Ok(())
}

fn talk_control(
    mesh: &mut Mesh,
    other: Rank,
    mut outgoing: &[u8],
    incoming: &mut [u8],
) -> Result<()> {
    let mut filled = 0;
    while !outgoing.is_empty() || filled < incoming.len() {
        let sent = mesh.transport.try_send(other, Lane::Control, outgoing)?;
        outgoing = &outgoing[sent..];
        let transport = &mut mesh.transport;
        let received = transport.try_recv(other, Lane::Control, &mut incoming[filled..])?;
        filled += received;
        if sent + received == 0 {
            let unsent: &[Rank] = if outgoing.is_empty() { &[] } else { &[other] };
            let end = Instant::now() + Duration::from_secs(1);
            mesh.transport
                .wait(Interest::Control { unsent }, Some(end))?;
        }
    }
    Ok(())
}

/// One session of two ranks through the proxy: how both ended.
fn session(
    proxy: &TamperingProxy,
    lane: Lane,
    encryption: Encryption,
    is_enough: impl Fn() -> bool + Send + Sync + 'static,
) -> Vec<Result<()>> {
    let key = JobKey::generate().unwrap();
    let store = MemoryStore::new();
    let ranks: Vec<(MeshOptions, Diverted)> = (0..2)
        .map(|rank| {
            let progress_timeout = Duration::from_secs(20);
            let mut options = options(rank, 2, &key, TransportKind::Tcp, progress_timeout);
            options.heartbeat_timeout = Duration::from_secs(2);
            options.tcp.encryption = encryption;
            let (store, proxy) = (store.clone(), proxy.clone());
            (options, Diverted { store, proxy })
        })
        .collect();
    run_ranks_with(ranks, move |_, (options, mut store)| {
        let end = Instant::now() + Duration::from_secs(20);
        let joined = join(&options, &mut store);
        joined.and_then(|mut mesh| talk(&mut mesh, lane, end, &is_enough))
    })
}

fn attack(purpose: Purpose, lane: Lane, encryption: Encryption, after: usize, words: &str) {
    let attacks = Attack::ALL.map(|attack| Direction::BOTH.map(|direction| (attack, direction)));
    // What never arrives is waited for, so all of them go on at once.
    thread::scope(|scope| {
        for (attack, direction) in attacks.into_iter().flatten() {
            let tampering = Tampering {
                purpose: purpose as u8,
                direction,
                after,
                attack,
            };
            scope.spawn(move || attempt(tampering, lane, encryption, words));
        }
    });
}

fn attempt(tampering: Tampering, lane: Lane, encryption: Encryption, words: &str) {
    let proxy = TamperingProxy::new(tampering);
    if !proxy.is_ready() {
        // The session whose records are replayed. One rank may see the other one leave.
        let recording = proxy.clone();
        let _ = session(&proxy, lane, encryption, move || recording.is_ready());
        assert!(proxy.is_ready(), "{tampering:?}: nothing was recorded");
    }
    let before = proxy.done();
    let outcomes = session(&proxy, lane, encryption, || false);
    assert!(proxy.done() > before, "{tampering:?}: nothing was changed");
    let errors: Vec<String> = outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_err().to_string())
        .collect();
    for error in &errors {
        assert!(
            error.contains("rank ") && error.contains("on host"),
            "{tampering:?}: {error}"
        );
    }
    let is_named = errors.iter().any(|error| error.contains(words));
    // Bytes that never come are noticed by their absence.
    let is_absent = matches!(tampering.attack, Attack::Stretch);
    assert!(is_named || is_absent, "{tampering:?}: {errors:?}");
}

#[test]
fn attacks_on_data_are_noticed_and_change_nothing() {
    attack(
        Purpose::Data,
        Lane::Data,
        Encryption::All,
        6,
        "has a data connection to rank",
    );
}

#[test]
fn attacks_on_control_messages_are_noticed_and_change_nothing() {
    for encryption in [Encryption::Control, Encryption::All] {
        attack(
            Purpose::Control,
            Lane::Control,
            encryption,
            6,
            "has a control connection to rank",
        );
    }
}

#[test]
fn attacks_on_lifelines_are_noticed() {
    for encryption in [Encryption::Control, Encryption::All] {
        attack(
            Purpose::Lifeline,
            Lane::Data,
            encryption,
            3,
            "has a lifeline on which",
        );
    }
}
