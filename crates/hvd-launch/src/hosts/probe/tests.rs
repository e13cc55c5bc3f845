//! Probes over the loopback interface, and each way in which one fails.

use std::{
    net::{Ipv4Addr, Ipv6Addr, TcpListener},
    sync::mpsc,
    thread::{self, JoinHandle},
};

use hvd_testkit::{Attack, Direction, Tampering, TamperingProxy};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use super::*;

const LONG: Duration = Duration::from_secs(30);

fn key() -> JobKey {
    JobKey::generate().unwrap()
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A listener of another kind: does `treat` with each of the first connections.
fn other_program(
    connections: u32,
    treat: impl Fn(TcpStream) + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::Builder::new()
        .name("hvd-test-other".into())
        .spawn(move || {
            for _ in 0..connections {
                treat(listener.accept().unwrap().0);
            }
        })
        .unwrap();
    (address, thread)
}

#[test]
fn the_expected_host_is_found_at_addresses_of_both_families() {
    let key = key();
    let port = ProbePort::open(None, &key, 5).unwrap();
    let round_trip = probe(local(port.number()), &key, 5, LONG).unwrap();
    assert!(round_trip > Duration::ZERO && round_trip < LONG);
    // Some machines have no IPv6 at all; then nothing listens there either.
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port.number()));
    match probe(v6, &key, 5, LONG) {
        Ok(_) => {}
        Err(failure) => assert_eq!(failure, ProbeFailure::Unreachable),
    }
}

#[test]
fn a_host_with_the_same_address_is_not_taken_for_the_other() {
    let key = key();
    let port = ProbePort::open(None, &key, 5).unwrap();
    let failure = probe(local(port.number()), &key, 6, LONG).unwrap_err();
    assert_eq!(failure, ProbeFailure::AnotherHost { identity: 5 });
}

#[test]
fn another_job_is_recognised() {
    let port = ProbePort::open(None, &key(), 5).unwrap();
    let failure = probe(local(port.number()), &key(), 5, LONG).unwrap_err();
    assert_eq!(failure, ProbeFailure::WrongKey);
}

#[test]
fn a_port_without_listener_refuses() {
    let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&bound, &local(0)).unwrap();
    let address = SocketAddr::try_from(getsockname(&bound).unwrap()).unwrap();
    let failure = probe(address, &key(), 5, LONG).unwrap_err();
    assert_eq!(failure, ProbeFailure::Refused);
}

#[test]
fn a_silent_listener_is_given_up() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = silent.local_addr().unwrap();
    let began = Instant::now();
    for timeout in [Duration::ZERO, Duration::from_millis(100)] {
        let failure = probe(address, &key(), 5, timeout).unwrap_err();
        assert_eq!(failure, ProbeFailure::TimedOut);
    }
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn other_programs_are_recognised() {
    let (address, thread) = other_program(1, |mut stream| {
        let mut hello = [0; 6];
        stream.read_exact(&mut hello).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
        // Stays open until the caller has read enough and leaves.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let failure = probe(address, &key(), 5, LONG).unwrap_err();
    assert_eq!(failure, ProbeFailure::NotHorovod);
    thread.join().unwrap();
}

#[test]
fn a_forwarder_without_target_is_tried_again_and_then_named() {
    let (address, thread) = other_program(ATTEMPTS, drop);
    let failure = probe(address, &key(), 5, LONG).unwrap_err();
    assert_eq!(failure, ProbeFailure::HungUp);
    thread.join().unwrap();
}

#[test]
fn bandwidth_is_measured_within_its_budget_and_with_one_load_at_least() {
    let key = key();
    let port = ProbePort::open(None, &key, 5).unwrap();
    let target = local(port.number());
    for milliseconds in [0, 50, 5000] {
        let budget = Duration::from_millis(milliseconds);
        let rate = bandwidth(target, &key, budget, LONG).unwrap();
        assert!(rate.is_finite() && rate > 0.0, "{budget:?}: {rate}");
    }
}

#[test]
fn a_slow_load_ends_with_its_timeout() {
    let key = key();
    let theirs = key.clone();
    let (address, thread) = other_program(1, move |stream| {
        // Takes the handshake and then reads nothing, so that the way fills up.
        let (_, mut session) = handshake::accept(&mut &stream, &theirs).unwrap();
        session.over(&stream).write_all(&[0; 4]).unwrap();
        let mut rest = Vec::new();
        let (sender, receiver) = mpsc::channel::<()>();
        let _ = receiver.recv_timeout(Duration::from_millis(400));
        drop(sender);
        let _ = (&stream).read_to_end(&mut rest);
    });
    let timeout = Duration::from_millis(200);
    let failure = bandwidth(address, &key, LONG, timeout).unwrap_err();
    assert_eq!(failure, ProbeFailure::TimedOut);
    thread.join().unwrap();
}

#[test]
fn strangers_are_told_nothing() {
    let port = ProbePort::open(None, &key(), 5).unwrap();
    let mut stranger = TcpStream::connect(local(port.number())).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // The end may come as a reset, because not all that was sent is ever read.
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
}

#[test]
fn ports_come_from_the_range() {
    let key = key();
    let first = ProbePort::open(None, &key, 0).unwrap().number().min(65_000);
    let one = ProbePort::open(Some((first, first + 100)), &key, 1).unwrap();
    let two = ProbePort::open(Some((first, first + 100)), &key, 2).unwrap();
    for port in [&one, &two] {
        assert!((first..=first + 100).contains(&port.number()));
    }
    assert_ne!(one.number(), two.number());
    let taken = one.number();
    let error = ProbePort::open(Some((taken, taken)), &key, 3).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!("none of the ports {taken}-{taken} is free")),
        "{text}"
    );
    assert!(text.contains("--port-range"), "{text}");
}

#[test]
fn a_crowd_is_served_and_leaves_no_thread_behind() {
    let key = key();
    let port = ProbePort::open(None, &key, 5).unwrap();
    let target = local(port.number());
    thread::scope(|scope| {
        for number in 0..40 {
            let key = &key;
            let name = format!("hvd-test-{number}");
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, move || probe(target, key, 5, LONG).unwrap())
                .unwrap();
        }
    });
    // Joins every thread of the port, or the test does not end.
    drop(port);
    assert!(probe(target, &key, 5, Duration::from_secs(5)).is_err());
}

#[test]
fn tampering_with_a_probe_makes_it_fail() {
    for attack in Attack::ALL {
        for direction in Direction::BOTH {
            let key = key();
            let port = ProbePort::open(None, &key, 5).unwrap();
            let tampering = Tampering {
                purpose: Purpose::Probe as u8,
                direction,
                after: 2,
                attack,
            };
            let proxy = TamperingProxy::new(tampering);
            let way = proxy.in_front_of(local(port.number()), local(0)).unwrap();
            if !proxy.is_ready() {
                // The probe whose records are replayed.
                probe(way, &key, 5, LONG).unwrap();
            }
            let failure = probe(way, &key, 5, Duration::from_secs(1)).unwrap_err();
            assert_eq!(proxy.done(), 1, "{tampering:?}");
            // This end notices it, or the other one, which hangs up or waits for the rest.
            let is_named = match &failure {
                ProbeFailure::Other(text) => text.contains(hvd_rendezvous::session::TAMPERED),
                other => matches!(other, ProbeFailure::HungUp | ProbeFailure::TimedOut),
            };
            assert!(is_named, "{tampering:?}: {failure:?}");
        }
    }
}
