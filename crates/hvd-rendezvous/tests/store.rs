//! The store over real sockets: what clients see, and what strangers cannot do.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hvd_rendezvous::{
    Client, Error, JobKey, Purpose, SecureSession, Server, Store, frame, handshake,
};
use hvd_testkit::run_ranks_with;
use hvd_types::Rank;

const LONG: Duration = Duration::from_secs(20);

struct Fixture {
    server: Server,
    key: JobKey,
}

impl Fixture {
    fn new() -> Self {
        let key = JobKey::generate().unwrap();
        Self {
            server: Server::start("127.0.0.1:0", &key).unwrap(),
            key,
        }
    }

    fn client(&self) -> Client {
        Client::connect("127.0.0.1", self.server.address().port(), &self.key, LONG).unwrap()
    }

    fn stranger(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// A connection that knows the key, to send nonsense through.
    fn insider(&self) -> (TcpStream, SecureSession) {
        let mut stream = self.stranger();
        let session = handshake::connect(&mut stream, &self.key, Purpose::Store).unwrap();
        (stream, session)
    }
}

/// Sends everything there is to send.
fn say_and_stop(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    // The server may have closed the connection by now.
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// Reads until the server hangs up, which it must.
fn assert_hung_up(mut stream: TcpStream) {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

#[test]
fn values_are_shared_between_clients_and_the_launcher() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.put("colour", b"red").unwrap();
    assert_eq!(two.get("colour", LONG).unwrap(), b"red");
    assert_eq!(fixture.server.get("colour").unwrap(), b"red");
    fixture.server.put("colour", b"").unwrap();
    assert_eq!(one.get("colour", LONG).unwrap(), b"");
    assert_eq!(fixture.server.get("shape"), None);
    assert!(one.local_ip().is_loopback());
}

#[test]
fn get_waits_for_the_value_or_its_deadline() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let error = client.get("absent", Duration::from_millis(30)).unwrap_err();
    assert!(
        matches!(&error, Error::TimedOut { key, .. } if key == "absent"),
        "{error}"
    );

    let states = vec![client, fixture.client()];
    let results = run_ranks_with(states, |rank, mut client| match rank.index() {
        0 => client.get("late", LONG).unwrap(),
        _ => client
            .put("late", b"here")
            .map(|()| b"here".to_vec())
            .unwrap(),
    });
    assert_eq!(results, [b"here", b"here"]);
}

#[test]
fn exchange_returns_all_values_by_rank_again_and_again() {
    let fixture = Fixture::new();
    let clients = (0..4).map(|_| fixture.client()).collect();
    let rounds = run_ranks_with(clients, |rank, mut client: Client| {
        (0..20_u8)
            .map(|round| {
                let value = [round, u8::try_from(rank.number()).unwrap()];
                client
                    .exchange(&format!("round/{round}"), rank, 4, &value, LONG)
                    .unwrap()
            })
            .collect::<Vec<_>>()
    });
    for seen in rounds {
        for (round, values) in (0..20_u8).zip(seen) {
            assert_eq!(values, [[round, 0], [round, 1], [round, 2], [round, 3]]);
        }
    }
}

#[test]
fn missing_ranks_are_named() {
    let fixture = Fixture::new();
    let timeout = Duration::from_millis(50);
    let error = fixture
        .client()
        .exchange("mesh/0", Rank::new(1), 4, b"", timeout)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "ranks 0, 2, 3 of 4 did not come to `mesh/0` within 0 s"
    );
}

/// Whom rank 2 of 3 does not find in the exchange.
fn missing(fixture: &Fixture) -> Vec<Rank> {
    let moment = Duration::from_millis(5);
    let visit = fixture.client().exchange("e", Rank::new(2), 3, b"", moment);
    match visit {
        Err(Error::MissingRanks { missing, .. }) => missing,
        other => unreachable!("{other:?}"),
    }
}

fn wait_until_missing(fixture: &Fixture, expected: &[Rank]) {
    let end = Instant::now() + LONG;
    while missing(fixture) != expected {
        assert!(Instant::now() < end, "never missing: {expected:?}");
    }
}

#[test]
fn a_client_that_hangs_up_has_not_come_to_an_exchange() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let hang_up = client.hang_up_handle().unwrap();
    let (zero, one) = (Rank::new(0), Rank::new(1));
    let waiter = std::thread::Builder::new()
        .name("hvd-test-waiter".into())
        .spawn(move || client.exchange("e", Rank::new(0), 3, b"", LONG))
        .unwrap();
    wait_until_missing(&fixture, &[one]);
    hang_up.now();
    assert!(waiter.join().unwrap().is_err());
    wait_until_missing(&fixture, &[zero, one]);
}

#[test]
fn a_client_that_hangs_up_in_a_get_leaves_no_thread_behind() {
    let fixture = Fixture::new();
    let (mut stream, mut session) = fixture.insider();
    let (kind, year_in_ms, key) = ([2], (1_u64 << 35).to_le_bytes(), [1, 0, 0, 0, b'k']);
    let mut sealed = session.over(&mut stream);
    let request = [&kind[..], &year_in_ms, &key].concat();
    frame::write(&mut sealed, &request, "asking").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    // Only the thread that answers closes the connection.
    assert_hung_up(stream);
}

#[test]
fn a_rank_that_has_ended_is_not_waited_for() {
    let fixture = Fixture::new();
    let how = "on host `h` exited with code 0";
    fixture.server.end_rank(Rank::new(1), how);
    let mut client = fixture.client();
    let error = client
        .exchange("e", Rank::new(0), 2, b"", LONG)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "rank 1 on host `h` exited with code 0; all ranks of a job have to take part in every init()"
    );
}

#[test]
fn a_rank_that_leaves_an_exchange_fails_it_for_all() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let why = "on host `h` gave up";
    client.leave("e", Rank::new(1), why).unwrap();
    let error = client
        .exchange("e", Rank::new(0), 2, b"", LONG)
        .unwrap_err();
    assert!(
        matches!(&error, Error::GaveUp { rank, reason } if rank.number() == 1 && reason == why)
    );
    assert_eq!(
        client.number().unwrap() + 1,
        fixture.client().number().unwrap()
    );
}

#[test]
fn large_values_pass() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let value = vec![7; 20 << 20];
    client.put("large", &value).unwrap();
    assert!(client.get("large", LONG).unwrap() == value);
}

#[test]
fn another_key_is_refused() {
    let fixture = Fixture::new();
    let other = JobKey::generate().unwrap();
    let port = fixture.server.address().port();
    let error = Client::connect("127.0.0.1", port, &other, LONG).unwrap_err();
    assert!(matches!(error, Error::WrongKey), "{error}");
    fixture.client().put("still", b"alive").unwrap();
}

#[test]
fn door_3_nonsense_ends_its_own_connection_only() {
    let fixture = Fixture::new();
    let mut bystander = fixture.client();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"HVDR\x02\x01",
        &[0xff; 4096],
    ] {
        let mut stream = fixture.stranger();
        say_and_stop(&mut stream, bytes);
        assert_hung_up(stream);
    }
    let oversized = u32::MAX.to_le_bytes();
    let unknown = [1, 0, 0, 0, 99];
    let half = [100, 0, 0, 0, 1, 2];
    for bytes in [&oversized[..], &unknown, &half] {
        let (mut stream, mut session) = fixture.insider();
        session.over(&mut stream).write_all(bytes).unwrap();
        say_and_stop(&mut stream, b"");
        assert_hung_up(stream);
    }
    for bytes in [&[0xff; 64][..], &[17, 0, 0, 0], &[7; 5]] {
        let (mut stream, _session) = fixture.insider();
        say_and_stop(&mut stream, bytes);
        assert_hung_up(stream);
    }
    bystander.put("still", b"alive").unwrap();
    assert_eq!(fixture.server.get("still").unwrap(), b"alive");
}

#[test]
fn door_2_silent_strangers_do_not_keep_a_client_out() {
    let fixture = Fixture::new();
    let start = Instant::now();
    let mut silent: Vec<TcpStream> = (0..300).map(|_| fixture.stranger()).collect();
    fixture.client().put("still", b"alive").unwrap();
    assert_hung_up(silent.swap_remove(0));
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "not before its time for the handshake ended"
    );
}

#[test]
fn door_4_stopping_ends_waiting_clients_and_all_threads() {
    let mut fixture = Fixture::new();
    let waiting = vec![fixture.client()];
    let _silent = fixture.stranger();
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = std::thread::Builder::new()
        .name("hvd-test-waiter".into())
        .spawn(move || {
            run_ranks_with(waiting, move |_, mut client| {
                sender.send(()).unwrap();
                client.get("never", LONG).unwrap_err().to_string()
            })
        })
        .unwrap();
    receiver.recv().unwrap();
    let start = Instant::now();
    fixture.server.stop();
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    waiter.join().unwrap();
    assert!(TcpStream::connect(fixture.server.address()).is_err());
}
