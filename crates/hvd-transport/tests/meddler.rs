//! Somebody between two ranks who changes, drops, repeats, moves and replays what they say: on every
//! kind of connection such an attempt ends in an error that names a rank, its host and the
//! connection, and no byte that was received is another than the one that was sent.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use hvd_rendezvous::{JobKey, MemoryStore, Purpose, Result as StoreResult, Store};
use hvd_testkit::{Attack, Direction, Meddler, Plan, run_ranks_with};
use hvd_transport::testing::options;
use hvd_transport::{Encryption, Interest, Lane, Mesh, MeshOptions, Result, TransportKind, join};
use hvd_types::Rank;

/// A store that tells rank 1 to reach rank 0 by way of somebody else, and the other way round.
struct Diverted {
    store: MemoryStore,
    meddler: Meddler,
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
                let changed = self.meddler.before(address, bind).unwrap();
                *value = format!("{changed}\n{rest}").into_bytes();
            }
        }
        Ok(values)
    }
}

fn letter(rank: Rank, round: usize) -> u8 {
    (rank.index() * 100 + round).to_le_bytes()[0]
}

/// Sends letters to the other rank and compares what comes back, until something goes wrong.
fn talk(mesh: &mut Mesh, lane: Lane, end: Instant) -> Result<()> {
    let own = mesh.transport.rank();
    let other = Rank::from_index(1 - own.index());
    for round in 0.. {
        assert!(Instant::now() < end, "rank {own} noticed nothing");
        let said = [letter(own, round); 700];
        let mut heard = [0; 700];
        match lane {
            Lane::Data => {
                let (send, recv) = (Some((other, &said[..])), Some((other, &mut heard[..])));
                mesh.transport.exchange(send, recv)?;
            }
            Lane::Control => talk_control(mesh, other, &said, &mut heard)?,
        }
        assert_eq!(
            heard,
            [letter(other, round); 700],
            "changed bytes were taken for true"
        );
    }
    Ok(())
}

fn talk_control(mesh: &mut Mesh, other: Rank, mut said: &[u8], heard: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while !said.is_empty() || filled < heard.len() {
        let sent = mesh.transport.try_send(other, Lane::Control, said)?;
        said = &said[sent..];
        let transport = &mut mesh.transport;
        let received = transport.try_recv(other, Lane::Control, &mut heard[filled..])?;
        filled += received;
        if sent + received == 0 {
            let unsent: &[Rank] = if said.is_empty() { &[] } else { &[other] };
            let end = Instant::now() + Duration::from_secs(1);
            mesh.transport
                .wait(Interest::Control { unsent }, Some(end))?;
        }
    }
    Ok(())
}

/// How both ranks ended.
fn outcome(plan: Plan, lane: Lane) -> (Vec<String>, usize) {
    let key = JobKey::generate().unwrap();
    let (store, meddler) = (MemoryStore::new(), Meddler::new(plan));
    let ranks: Vec<(MeshOptions, Diverted)> = (0..2)
        .map(|rank| {
            let patience = Duration::from_secs(20);
            let mut options = options(rank, 2, &key, TransportKind::Tcp, patience);
            options.silence = Duration::from_secs(2);
            options.tcp.encryption = Encryption::All;
            let (store, meddler) = (store.clone(), meddler.clone());
            (options, Diverted { store, meddler })
        })
        .collect();
    let outcomes = run_ranks_with(ranks, move |_, (options, mut store)| {
        let end = Instant::now() + Duration::from_secs(20);
        let joined = join(&options, &mut store);
        let talked = joined.and_then(|mut mesh| talk(&mut mesh, lane, end));
        talked.unwrap_err().to_string()
    });
    (outcomes, meddler.done())
}

fn attack(purpose: Purpose, lane: Lane, after: usize, words: &str) {
    let plans = Attack::ALL.map(|attack| Direction::BOTH.map(|direction| (attack, direction)));
    // What never arrives is waited for, so all of them go on at once.
    thread::scope(|scope| {
        for (attack, direction) in plans.into_iter().flatten() {
            let plan = Plan {
                purpose: purpose as u8,
                direction,
                after,
                attack,
            };
            scope.spawn(move || attempt(plan, lane, words));
        }
    });
}

fn attempt(plan: Plan, lane: Lane, words: &str) {
    let (errors, done) = outcome(plan, lane);
    assert!(done > 0, "{plan:?}: nothing was changed");
    for error in &errors {
        assert!(
            error.contains("rank ") && error.contains("on host"),
            "{plan:?}: {error}"
        );
    }
    let is_named = errors.iter().any(|error| error.contains(words));
    // Bytes that never come are noticed by their absence.
    let is_absent = matches!(plan.attack, Attack::Stretch);
    assert!(is_named || is_absent, "{plan:?}: {errors:?}");
}

#[test]
fn attacks_on_data_are_noticed_and_change_nothing() {
    attack(
        Purpose::Data,
        Lane::Data,
        6,
        "has a data connection to rank",
    );
}

#[test]
fn attacks_on_control_messages_are_noticed_and_change_nothing() {
    attack(
        Purpose::Control,
        Lane::Control,
        6,
        "has a control connection to rank",
    );
}

#[test]
fn attacks_on_lifelines_are_noticed() {
    attack(Purpose::Lifeline, Lane::Data, 3, "has a lifeline on which");
}
