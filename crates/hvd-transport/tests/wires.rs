//! The same checks over every wire, with ranks as threads: `WIRE-1` to `WIRE-4`.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hvd_testkit::run_ranks_with;
use hvd_transport::testing::{Setup, Wire, mesh_of};
use hvd_transport::{Error, Failure, Interest, Lane, Mesh, Transport, Wake};
use hvd_types::Rank;

const NOTHING: Interest<'static> = Interest::Data {
    send: None,
    recv: None,
};

fn soon(milliseconds: u64) -> Instant {
    Instant::now() + Duration::from_millis(milliseconds)
}

/// Bytes that differ by sender, receiver and position.
fn pattern(from: Rank, to: Rank, length: usize) -> Vec<u8> {
    let seed = from.index() * 31 + to.index() * 7;
    (0..length)
        .map(|index| (seed + index + (index >> 8) + (index >> 16)).to_le_bytes()[0])
        .collect()
}

/// Moves a control message with the primitives, as the engine does.
fn send_control(transport: &mut dyn Transport, peer: Rank, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match transport.try_send(peer, Lane::Control, bytes).unwrap() {
            0 => drop(
                transport
                    .wait(Interest::Control { unsent: &[peer] }, Some(soon(20_000)))
                    .unwrap(),
            ),
            sent => bytes = &bytes[sent..],
        }
    }
}

fn recv_control(transport: &mut dyn Transport, peer: Rank, length: usize) -> Vec<u8> {
    let (mut bytes, mut filled) = (vec![0; length], 0);
    while filled < length {
        match transport
            .try_recv(peer, Lane::Control, &mut bytes[filled..])
            .unwrap()
        {
            0 => {
                let wake = transport
                    .wait(Interest::Control { unsent: &[] }, Some(soon(20_000)))
                    .unwrap();
                assert_eq!(wake, Wake::Event, "after {filled} of {length} bytes");
            }
            received => filled += received,
        }
    }
    bytes
}

/// One step of a ring: to the right, from the left.
fn rotate(transport: &mut dyn Transport, length: usize) {
    let (rank, size) = (transport.rank(), transport.size());
    let right = Rank::from_index((rank.index() + 1) % size);
    let left = Rank::from_index((rank.index() + size - 1) % size);
    let mut received = vec![0; length];
    let sent = pattern(rank, right, length);
    transport
        .exchange(Some((right, &sent)), Some((left, &mut received)))
        .unwrap();
    assert!(
        received == pattern(left, rank, length),
        "{rank} of {size}, {length} bytes"
    );
}

#[test]
fn wire_1_rings_of_ranks_exchange_any_length() {
    for wire in Wire::ALL {
        for size in 2..=8 {
            run_ranks_with(mesh_of(wire, size), |_, mut mesh: Mesh| {
                for length in [0, 1, 7, 4096, 1 << 20] {
                    rotate(&mut *mesh.transport, length);
                }
            });
        }
    }
}

#[test]
fn wire_1_messages_many_times_the_size_of_the_buffers() {
    for wire in Wire::ALL {
        let ends = Setup::new(wire, 3).tight(64).build();
        run_ranks_with(ends, |_, mut mesh: Mesh| {
            for length in [63, 64, 65, 1000, 20_011] {
                rotate(&mut *mesh.transport, length);
            }
        });
    }
}

#[test]
fn wire_1_lanes_do_not_hold_each_other_up() {
    for wire in Wire::ALL {
        let ends = Setup::new(wire, 2).tight(256).build();
        run_ranks_with(ends, move |rank, mut mesh: Mesh| {
            let transport = &mut *mesh.transport;
            let peer = Rank::new(1 - rank.number());
            if rank.number() == 0 {
                // Fill the data lane until it takes no more, then talk on the other.
                let mut sent = 0;
                while let more @ 1.. = transport.try_send(peer, Lane::Data, &[5; 4096]).unwrap() {
                    sent += more;
                }
                send_control(transport, peer, &sent.to_le_bytes());
                send_control(transport, peer, &pattern(rank, peer, 5000));
                assert_eq!(recv_control(transport, peer, 1), [9]);
            } else {
                let length = recv_control(transport, peer, 8).try_into().unwrap();
                let text = recv_control(transport, peer, 5000);
                assert!(text == pattern(peer, rank, 5000), "{wire:?}");
                let mut data = vec![0; usize::from_le_bytes(length)];
                transport.recv(peer, &mut data).unwrap();
                assert!(data.iter().all(|&byte| byte == 5), "{wire:?}");
                send_control(transport, peer, &[9]);
            }
        });
    }
}

#[test]
fn wire_1_control_from_all_to_one_and_back() {
    for wire in Wire::ALL {
        run_ranks_with(mesh_of(wire, 5), |rank, mut mesh: Mesh| {
            let transport = &mut *mesh.transport;
            for _ in 0..200 {
                if rank == Rank::COORDINATOR {
                    for peer in (1..5).map(Rank::new) {
                        assert_eq!(
                            recv_control(transport, peer, 4),
                            peer.number().to_le_bytes()
                        );
                    }
                    for peer in (1..5).map(Rank::new) {
                        send_control(transport, peer, b"answer");
                    }
                } else {
                    send_control(transport, Rank::COORDINATOR, &rank.number().to_le_bytes());
                    assert_eq!(recv_control(transport, Rank::COORDINATOR, 6), b"answer");
                }
            }
        });
    }
}

#[test]
fn wire_2_nothing_to_do_is_said_without_waiting() {
    for wire in Wire::ALL {
        let mut ends = mesh_of(wire, 2);
        let transport = &mut ends[0].transport;
        for lane in Lane::ALL {
            assert_eq!(
                transport.try_recv(Rank::new(1), lane, &mut [0; 8]).unwrap(),
                0
            );
        }
    }
}

#[test]
fn wire_3_a_waker_ends_this_wait_or_the_next() {
    for wire in Wire::ALL {
        let mut ends = mesh_of(wire, 2);
        let transport = &mut ends[0].transport;
        let waker = transport.waker();
        waker.wake();
        assert_eq!(
            transport.wait(NOTHING, Some(soon(20_000))).unwrap(),
            Wake::Event,
            "{wire:?}"
        );

        let (sender, receiver) = mpsc::channel();
        let waking = thread::Builder::new()
            .name("hvd-test-waker".into())
            .spawn(move || {
                receiver.recv().unwrap();
                waker.wake();
            })
            .unwrap();
        sender.send(()).unwrap();
        assert_eq!(
            transport.wait(NOTHING, Some(soon(20_000))).unwrap(),
            Wake::Event,
            "{wire:?}"
        );
        waking.join().unwrap();
    }
}

#[test]
fn wire_3_the_deadline_ends_a_wait() {
    for wire in Wire::ALL {
        let mut ends = mesh_of(wire, 2);
        let transport = &mut ends[1].transport;
        for interest in [
            NOTHING,
            Interest::Data {
                send: None,
                recv: Some(Rank::new(0)),
            },
            Interest::Control { unsent: &[] },
        ] {
            let start = Instant::now();
            // A wait may end for no reason, but not always.
            while transport.wait(interest, Some(soon(30))).unwrap() == Wake::Event {
                assert!(
                    start.elapsed() < Duration::from_secs(5),
                    "{wire:?} {interest:?}"
                );
            }
            assert!(
                start.elapsed() >= Duration::from_millis(29),
                "{wire:?} {interest:?}"
            );
        }
    }
}

#[test]
fn wire_3_no_event_is_missed_in_a_game_of_ping_pong() {
    for wire in Wire::ALL {
        run_ranks_with(mesh_of(wire, 2), |rank, mut mesh: Mesh| {
            let transport = &mut *mesh.transport;
            let peer = Rank::new(1 - rank.number());
            let mut ball = [0; 8];
            for round in 0..5000_u64 {
                if rank.number() == 0 {
                    transport.send(peer, &round.to_le_bytes()).unwrap();
                }
                transport.recv(peer, &mut ball).unwrap();
                assert_eq!(u64::from_le_bytes(ball), round);
                if rank.number() == 1 {
                    transport.send(peer, &ball).unwrap();
                }
            }
        });
    }
}

/// A ring in which every rank has one neighbour on its host and one on the other.
#[test]
fn wire_3_memory_and_connections_end_the_same_wait() {
    const RING: [u32; 4] = [0, 1, 3, 2];
    let ends = Setup::new(Wire::Mixed, 4).tight(1024).build();
    run_ranks_with(ends, |rank, mut mesh: Mesh| {
        assert_eq!(mesh.transport.kind(), "shared memory and tcp");
        let at = RING
            .iter()
            .position(|&other| other == rank.number())
            .unwrap();
        let (to, from) = (Rank::new(RING[(at + 1) % 4]), Rank::new(RING[(at + 3) % 4]));
        for round in 0..2000 {
            let length = if round % 20 == 0 { 200_000 } else { 1 + round };
            let (sent, mut received) = (pattern(rank, to, length), vec![0; length]);
            mesh.transport
                .exchange(Some((to, &sent)), Some((from, &mut received)))
                .unwrap();
            assert!(received == pattern(from, rank, length), "round {round}");
        }
    });
}

/// The nearest peer of a rank, and the same on the other host.
#[test]
fn wire_3_no_event_is_missed_between_near_and_far_ranks() {
    run_ranks_with(mesh_of(Wire::Mixed, 4), |rank, mut mesh: Mesh| {
        let transport = &mut *mesh.transport;
        let mut ball = [0; 8];
        for round in 0..3000_u64 {
            for peer in [1, 2].map(|step| Rank::new(rank.number() ^ step)) {
                if rank < peer {
                    transport.send(peer, &round.to_le_bytes()).unwrap();
                }
                transport.recv(peer, &mut ball).unwrap();
                assert_eq!(u64::from_le_bytes(ball), round);
                if rank > peer {
                    transport.send(peer, &ball).unwrap();
                }
            }
        }
    });
}

#[test]
fn wire_4_an_abort_ends_a_wait_and_everything_after() {
    for wire in Wire::ALL {
        let mut ends = mesh_of(wire, 2);
        let mesh = &mut ends[0];
        let abort = mesh.abort.clone();
        let failure = Failure {
            rank: Rank::new(1),
            host: "node-b".into(),
            reason: "was struck by lightning".into(),
        };
        let (sender, receiver) = mpsc::channel();
        let raising = thread::Builder::new()
            .name("hvd-test-raise".into())
            .spawn(move || {
                receiver.recv().unwrap();
                abort.raise(failure);
            })
            .unwrap();
        sender.send(()).unwrap();
        let text = "rank 1 on host `node-b` was struck by lightning";
        let transport = &mut mesh.transport;
        let error = loop {
            if let Err(error) = transport.wait(NOTHING, Some(soon(20_000))) {
                break error;
            }
        };
        assert_eq!(error.to_string(), text, "{wire:?}");
        raising.join().unwrap();
        assert!(
            transport
                .try_recv(Rank::new(1), Lane::Data, &mut [0])
                .is_err(),
            "{wire:?}"
        );
        assert!(transport.wait(NOTHING, None).is_err(), "{wire:?}");
    }
}

#[test]
fn a_peer_without_progress_is_named_after_the_timeout() {
    for wire in Wire::ALL {
        let mut ends = Setup::new(wire, 3)
            .progress_timeout(Duration::from_millis(50))
            .build();
        let error = ends[0]
            .transport
            .recv(Rank::new(2), &mut [0; 4])
            .unwrap_err();
        assert!(
            matches!(error, Error::Stalled { rank, .. } if rank == Rank::new(2)),
            "{wire:?}"
        );
    }
}
