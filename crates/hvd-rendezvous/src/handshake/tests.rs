//! The handshake over socket pairs: friends, strangers and imitators.

mod specification;

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
) -> (T, Result<(Purpose, SecureSession)>) {
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
        let (mut ours, (agreed, mut theirs)) = (connected.unwrap(), accepted.unwrap());
        assert_eq!(agreed, purpose);
        let mut wire = Vec::new();
        ours.over(&mut wire).write_all(b"there").unwrap();
        let mut received = [0; 5];
        theirs.over(&wire[..]).read_exact(&mut received).unwrap();
        assert_eq!(&received, b"there");
    }
}

#[test]
fn another_jobs_key_is_refused_on_both_sides() {
    let (connected, accepted) = against(&key(), |stream| connect(stream, &key(), Purpose::Store));
    assert!(matches!(connected, Err(Error::WrongKey)), "{connected:?}");
    assert!(accepted.is_err(), "the connector left: {accepted:?}");
}

#[test]
fn a_hello_without_the_key_is_told_so_and_nothing_else() {
    let (received, accepted) = against(&key(), |stream| {
        stream.write_all(&head(1)).unwrap();
        stream.write_all(&[7; PROOF]).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    });
    assert!(matches!(accepted, Err(Error::WrongKey)), "{accepted:?}");
    assert_eq!(received, b"HVDR\xff");
}

/// A hello that an honest connector has sent, as an attacker on the path records it.
fn recorded_hello(key: &JobKey) -> [u8; HELLO] {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let key = key.clone();
    let connector = thread::Builder::new()
        .name("hvd-test-recorded".into())
        .spawn(move || connect(&mut ours, &key, Purpose::Store))
        .unwrap();
    let hello = receive::<HELLO>(&mut theirs).unwrap();
    drop(theirs);
    assert!(connector.join().unwrap().is_err());
    hello
}

#[test]
fn hand_2_a_recorded_hello_opens_nothing() {
    let key = key();
    let hello = recorded_hello(&key);
    assert_eq!(open_hello(&hello, &key).unwrap().0, Purpose::Store);
    let ((), accepted) = against(&key, |stream| {
        stream.write_all(&hello).unwrap();
        receive::<{ 5 + PROOF }>(stream).unwrap();
        stream.write_all(&[16, 0, 0, 0]).unwrap();
        stream.write_all(&[7; 16]).unwrap();
    });
    assert!(matches!(accepted, Err(Error::WrongKey)), "{accepted:?}");
}

/// Keeps what is read through it.
struct Recorder<'a>(&'a mut UnixStream, Vec<u8>);

impl Read for Recorder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.extend(&buffer[..count]);
        Ok(count)
    }
}

impl Write for Recorder<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn the_key_does_not_open_what_was_recorded_before() {
    let key = key();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let connector = {
        let key = key.clone();
        thread::Builder::new()
            .name("hvd-test-recorded".into())
            .spawn(move || connect(&mut ours, &key, Purpose::Store).map(|_| ours))
            .unwrap()
    };
    let mut recorder = Recorder(&mut theirs, Vec::new());
    accept(&mut recorder, &key).unwrap();
    let recorded = recorder.1;
    connector.join().unwrap().unwrap();
    // An attacker with the key can make a session of the recorded hello, but not the recorded session.
    let (_, replayed) = against(&key, |stream| stream.write_all(&recorded));
    assert!(matches!(replayed, Err(Error::WrongKey)), "{replayed:?}");
}

#[test]
fn half_a_hello_is_told_from_a_connection_without_a_byte() {
    use std::io::ErrorKind;
    for (sent, expected) in [
        (&b""[..], ErrorKind::UnexpectedEof),
        (b"HVDR", ErrorKind::ConnectionAborted),
    ] {
        let (_, accepted) = against(&key(), |stream| stream.write_all(sent));
        let Err(Error::Io { source, .. }) = accepted else {
            panic!("{accepted:?}");
        };
        assert_eq!(source.kind(), expected);
    }
}

#[test]
fn hand_3_the_acceptors_own_proof_does_not_open_it() {
    let key = key();
    let hello = recorded_hello(&key);
    let ((), accepted) = against(&key, |stream| {
        stream.write_all(&hello).unwrap();
        let answer = receive::<{ 5 + PROOF }>(stream).unwrap();
        stream.write_all(&[16, 0, 0, 0]).unwrap();
        stream.write_all(&answer[5 + 32..]).unwrap();
    });
    assert!(matches!(accepted, Err(Error::WrongKey)), "{accepted:?}");
}

#[test]
fn a_changed_hello_is_refused_wherever_it_was_changed() {
    let key = key();
    let hello = recorded_hello(&key);
    for at in 0..HELLO {
        let mut changed = hello;
        changed[at] ^= 1;
        // Magic and version are looked at before; the purpose is proved.
        if at >= 5 {
            assert!(open_hello(&changed, &key).is_err(), "byte {at}");
        }
    }
    assert!(open_hello(&hello, &self::key()).is_err(), "another job's");
}

#[test]
fn hand_4_the_purpose_cannot_be_changed_on_the_way() {
    let key = key();
    let inner = key.clone();
    let (connected, accepted) = against(&key, move |stream| {
        // A man in the middle passes everything on, but asks for the store instead.
        let (mut victim, mut middle) = UnixStream::pair().unwrap();
        let connector = thread::Builder::new()
            .name("hvd-test-victim".into())
            .spawn(move || connect(&mut victim, &inner, Purpose::Lifeline))
            .unwrap();
        let mut hello = receive::<HELLO>(&mut middle).unwrap();
        hello[5] = Purpose::Store as u8;
        stream.write_all(&hello).unwrap();
        middle.write_all(&receive::<5>(stream).unwrap()).unwrap();
        connector.join().unwrap()
    });
    assert!(matches!(accepted, Err(Error::WrongKey)), "{accepted:?}");
    assert!(matches!(connected, Err(Error::WrongKey)), "{connected:?}");
}

#[test]
fn another_version_is_named_on_both_sides() {
    let (answer, accepted) = against(&key(), |stream| {
        stream.write_all(b"HVDR\x09\x01").unwrap();
        receive::<5>(stream).unwrap()
    });
    assert_eq!(&answer, b"HVDR\x02");
    assert!(
        matches!(accepted, Err(Error::Version { ours: 2, theirs: 9 })),
        "{accepted:?}"
    );

    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"HVDR\x09").unwrap();
    let connected = connect(&mut ours, &key(), Purpose::Store);
    assert!(
        matches!(connected, Err(Error::Version { ours: 2, theirs: 9 })),
        "{connected:?}"
    );
}

#[test]
fn other_programs_and_half_messages_are_refused() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"HVDR\x02\x01half",
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
