//! Two ranks over connections that the test can cut.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hvd_types::Topology;

use super::*;
use crate::Abort;

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn end(rank: u32, lanes: [Bundle; 2]) -> Tcp {
    let context = RankContext {
        rank: Rank::new(rank),
        topology: Topology::new(["left", "right"]),
        progress_timeout: Duration::from_secs(30),
        abort: Abort::new(),
        has_cores: true,
    };
    let mut peers = vec![
        [LaneState::None, LaneState::None],
        lanes.map(LaneState::Open),
    ];
    if rank == 1 {
        peers.reverse();
    }
    let links = Links::connected(peers);
    Tcp::new(context, links, Arc::new(Flag::new().unwrap()))
}

/// Both ends of two ranks whose data lane has so many connections, and the connections of the
/// second end once more.
fn pair(connections: usize, stripe: usize) -> (Tcp, Tcp, Vec<TcpStream>) {
    let (mut left, mut right, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for count in [1, connections] {
        let (near, far): (Vec<_>, Vec<_>) = (0..count).map(|_| connected()).unzip();
        kept = far.iter().map(|far| far.try_clone().unwrap()).collect();
        let bundle = |streams: Vec<TcpStream>| {
            let strands = streams.into_iter().map(|it| Connection::plain(it).unwrap());
            Bundle::new(strands.collect(), stripe)
        };
        left.push(bundle(near));
        right.push(bundle(far));
    }
    let left = end(0, left.try_into().unwrap());
    let right = end(1, right.try_into().unwrap());
    (left, right, kept)
}

#[test]
fn tcp_2_one_connection_of_several_cut_in_the_middle_names_the_rank_and_its_host() {
    const LENGTH: usize = 64 << 20;
    for cut in 0..3 {
        let (mut left, mut right, connections) = pair(3, 1000);
        let receiving = thread::Builder::new()
            .name("hvd-test-right".into())
            .spawn(move || {
                let mut bytes = vec![0; LENGTH];
                // Some of it arrives, and then a middlebox forgets one of the connections.
                right.recv(Rank::new(0), &mut bytes[..1 << 20]).unwrap();
                connections[cut].shutdown(Shutdown::Both).unwrap();
                let error = right.recv(Rank::new(0), &mut bytes[1 << 20..]).unwrap_err();
                (error.to_string(), right)
            })
            .unwrap();
        let sent = left.send(Rank::new(1), &vec![7; LENGTH]).unwrap_err();
        let (received, _right) = receiving.join().unwrap();
        let what = "closed its connection while it was needed";
        assert_eq!(sent.to_string(), format!("rank 1 on host `right` {what}"));
        assert_eq!(received, format!("rank 0 on host `left` {what}"));
    }
}

#[test]
fn stripes_go_to_one_connection_after_the_other() {
    let (mut left, mut right, _) = pair(3, 10);
    left.send(Rank::new(1), b"0123456789abcdefghijABCDEFGHIJ+-")
        .unwrap();
    let mut received = [0; 32];
    right.recv(Rank::new(0), &mut received).unwrap();
    assert_eq!(&received, b"0123456789abcdefghijABCDEFGHIJ+-");
    let lane = left.look(Rank::new(1), Lane::Data).unwrap();
    assert_eq!(
        lane.outgoing(),
        0,
        "three stripes and a little of the fourth"
    );
    assert_eq!(right.look(Rank::new(0), Lane::Data).unwrap().incoming(), 0);
}

#[test]
fn spinning_on_connections_ends_by_an_event_or_by_its_limits() {
    let flag = Flag::new().unwrap();
    let mut policy = SpinPolicy::new(spin::CONNECTIONS, true);
    let spin_once = |policy: &mut SpinPolicy| {
        let mut spin = policy.start(None);
        let is_ready = spin_on(&mut [PollFd::new(&flag, PollFlags::IN)], &mut spin).unwrap();
        policy.learn(&spin);
        is_ready
    };
    assert!(!spin_once(&mut policy), "nothing to find");
    assert!(
        !policy.start(None).is_active(),
        "a wait that was too long is remembered"
    );
    flag.raise();
    assert!(spin_once(&mut SpinPolicy::new(spin::CONNECTIONS, true)));
}
