//! The handshake over socket pairs: friends, strangers and imitators.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::*;

fn key() -> JobKey {
    JobKey::generate().unwrap()
}

/// Runs `accept` on a thread against whatever `connector` does on the other end.
fn against<T>(
    accept_key: &JobKey,
    connector: impl FnOnce(&mut UnixStream) -> T,
) -> (T, Result<Purpose>) {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    for stream in [&ours, &theirs] {
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
    }
    let key = accept_key.clone();
    let acceptor = thread::Builder::new()
        .name("hvd-test-acceptor".into())
        .spawn(move || accept(&mut theirs, &key))
        .unwrap();
    let outcome = connector(&mut ours);
    let _ = ours.shutdown(Shutdown::Write);
    (outcome, acceptor.join().unwrap())
}

#[test]
fn friends_recognise_each_other_and_agree_on_the_purpose() {
    let key = key();
    for purpose in [
        Purpose::Store,
        Purpose::Lifeline,
        Purpose::Control,
        Purpose::Data,
        Purpose::Segment,
        Purpose::Agent,
        Purpose::Probe,
    ] {
        let (connected, accepted) = against(&key, |stream| connect(stream, &key, purpose));
        connected.unwrap();
        assert_eq!(accepted.unwrap(), purpose);
    }
}

#[test]
fn another_jobs_key_is_refused_on_both_sides() {
    let (connected, accepted) = against(&key(), |stream| connect(stream, &key(), Purpose::Store));
    assert!(matches!(connected, Err(Error::WrongKey)), "{connected:?}");
    assert!(accepted.is_err(), "the connector left: {accepted:?}");
}

#[test]
fn a_connector_that_ignores_the_answer_is_refused() {
    let ((), accepted) = against(&key(), |stream| {
        stream.write_all(b"HVDR\x01\x01").unwrap();
        stream.write_all(&[7; NONCE + PROOF]).unwrap();
    });
    assert!(matches!(accepted, Err(Error::WrongKey)), "{accepted:?}");
}

#[test]
fn hand_3_the_acceptors_own_proof_does_not_open_it() {
    let ((), accepted) = against(&key(), |stream| {
        stream.write_all(b"HVDR\x01\x01").unwrap();
        stream.write_all(&[7; NONCE]).unwrap();
        let answer = receive::<{ 5 + NONCE + PROOF }>(stream).unwrap();
        stream.write_all(&answer[5 + NONCE..]).unwrap();
    });
    assert!(matches!(accepted, Err(Error::WrongKey)), "{accepted:?}");
}

#[test]
fn hand_4_the_purpose_cannot_be_changed_on_the_way() {
    let key = key();
    let inner = key.clone();
    let (connected, accepted) = against(&key, move |stream| {
        // Somebody in the middle passes everything on, but asks for the store instead.
        let (mut victim, mut middle) = UnixStream::pair().unwrap();
        let connector = thread::Builder::new()
            .name("hvd-test-victim".into())
            .spawn(move || connect(&mut victim, &inner, Purpose::Lifeline))
            .unwrap();
        let mut hello = receive::<{ 6 + NONCE }>(&mut middle).unwrap();
        hello[5] = Purpose::Store as u8;
        stream.write_all(&hello).unwrap();
        middle
            .write_all(&receive::<{ 5 + NONCE + PROOF }>(stream).unwrap())
            .unwrap();
        connector.join().unwrap()
    });
    assert!(matches!(connected, Err(Error::WrongKey)), "{connected:?}");
    assert!(accepted.is_err());
}

#[test]
fn another_version_is_named_on_both_sides() {
    let (answer, accepted) = against(&key(), |stream| {
        stream.write_all(b"HVDR\x09\x01").unwrap();
        receive::<5>(stream).unwrap()
    });
    assert_eq!(&answer, b"HVDR\x01");
    assert!(
        matches!(accepted, Err(Error::Version { ours: 1, theirs: 9 })),
        "{accepted:?}"
    );

    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"HVDR\x09").unwrap();
    let connected = connect(&mut ours, &key(), Purpose::Store);
    assert!(
        matches!(connected, Err(Error::Version { ours: 1, theirs: 9 })),
        "{connected:?}"
    );
}

#[test]
fn other_programs_and_half_messages_are_refused() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"HVDR\x01\x01half",
        b"HV",
        b"",
    ] {
        let ((), accepted) = against(&key(), |stream| stream.write_all(bytes).unwrap());
        assert!(
            matches!(accepted, Err(Error::NotHorovod | Error::Io { .. })),
            "{bytes:?}: {accepted:?}"
        );
    }
}
