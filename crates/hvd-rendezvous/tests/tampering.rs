//! A proxy between a worker and the store changes, drops, repeats, reorders and replays records: the
//! receiving end notices every attempt, and no value is changed.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::thread;
use std::time::Duration;

use hvd_rendezvous::{Client, JobKey, Purpose, Server, Store};
use hvd_testkit::{Attack, Direction, Tampering, TamperingProxy};

const LONG: Duration = Duration::from_secs(3);

/// Puts and gets values until something goes wrong, twenty times at most; returns what went wrong.
fn converse(client: &mut Client, number: usize) -> Result<(), String> {
    for round in 0..20 {
        let (key, value) = (format!("{number}/{round}"), format!("value {round}"));
        let put = client.put(&key, value.as_bytes());
        put.map_err(|error| error.to_string())?;
        let got = client.get(&key, LONG).map_err(|error| error.to_string())?;
        assert_eq!(got, value.as_bytes(), "a value was changed");
    }
    Ok(())
}

#[test]
fn every_attack_on_the_store_is_noticed_and_changes_nothing() {
    let attacks = Attack::ALL.map(|attack| Direction::BOTH.map(|direction| (attack, direction)));
    // What never arrives is waited for, so all of them go on at once.
    thread::scope(|scope| {
        for (attack, direction) in attacks.into_iter().flatten() {
            scope.spawn(move || attempt(attack, direction));
        }
    });
}

fn attempt(attack: Attack, direction: Direction) {
    let key = JobKey::generate().unwrap();
    let server = Server::start("127.0.0.1:0", &key).unwrap();
    let tampering = Tampering {
        purpose: Purpose::Store as u8,
        direction,
        after: 5,
        attack,
    };
    let proxy = TamperingProxy::new(tampering);
    let bind = "127.0.0.1:0".parse().unwrap();
    let port = proxy.in_front_of(server.address(), bind).unwrap().port();
    let connect = || Client::connect("127.0.0.1", port, &key, LONG).unwrap();
    if !proxy.is_ready() {
        // The connection whose records are replayed.
        converse(&mut connect(), 0).unwrap();
    }
    let error = converse(&mut connect(), 1).unwrap_err();
    assert_eq!(proxy.done(), 1, "{tampering:?}");
    assert!(error.contains("key-value store"), "{tampering:?}: {error}");
    for round in 0..20 {
        let stored = server.get(&format!("1/{round}"));
        let expected = format!("value {round}");
        assert!(
            stored.is_none_or(|it| it == expected.as_bytes()),
            "{tampering:?}"
        );
    }
}
