//! Processes without the key, or with another key or token, at the ports of driver and agent: they
//! are refused, and those that know it are accepted afterwards. The port for probes is in
//! `hosts/probe/tests.rs`.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use hvd_rendezvous::{Client, Error, JobKey, Purpose, handshake};
use tokio::time::timeout;

use crate::{
    agent::{
        driver_connection::{connect, introduce},
        store_port::StorePort,
    },
    driver::agent_port::{AgentIdentity, AgentPort},
};

const LONG: Duration = Duration::from_secs(15);

/// Everything that a process without a key is told.
fn told_without_key(port: SocketAddr) -> Vec<u8> {
    let mut stranger = TcpStream::connect(port).unwrap();
    stranger.set_read_timeout(Some(LONG)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut told = Vec::new();
    // The end may come as a reset, because not all that was sent is ever read.
    let _ = stranger.read_to_end(&mut told);
    told
}

#[tokio::test]
async fn the_port_for_agents_refuses_other_keys_and_tokens() {
    let identity = AgentIdentity {
        name: "b".to_owned(),
        ..AgentIdentity::default()
    };
    let (key, other) = (JobKey::generate().unwrap(), JobKey::generate().unwrap());
    for accepts_calls in [false, true] {
        let port = if accepts_calls {
            AgentPort::open_at(0, &key)
        } else {
            AgentPort::open(&key)
        };
        let port = port.unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.port()));
        let mut arrival = port.expect(7, identity.clone());
        let come = |key: &JobKey| {
            let key = key.clone();
            tokio::task::spawn_blocking(move || {
                if accepts_calls {
                    introduce(&address.to_string(), &key, "b")
                } else {
                    connect(address, &key, 7)
                }
            })
        };
        assert_eq!(told_without_key(address), b"");
        let refused = come(&other).await.unwrap();
        assert!(matches!(refused, Err(Error::WrongKey)), "{refused:?}");
        assert!(arrival.try_recv().is_err(), "it was taken for the agent");
        let taken = come(&key).await.unwrap();
        assert!(taken.is_ok(), "{taken:?}");
        timeout(LONG, arrival).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_forwarding_to_the_store_refuses_other_keys_and_purposes() {
    let (key, other) = (JobKey::generate().unwrap(), JobKey::generate().unwrap());
    let (mut port, address) = StorePort::open(&key).unwrap();
    assert_eq!(told_without_key(address), b"");
    let connecting = tokio::task::spawn_blocking(move || {
        Client::connect("127.0.0.1", address.port(), &other, LONG).map(drop)
    });
    let refused = connecting.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("does not know the key"), "{refused}");
    // Only an agent's own store may be reached through it.
    let theirs = key.clone();
    let connecting = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        handshake::connect(&mut stream, &theirs, Purpose::Agent).map(drop)
    });
    assert!(connecting.await.unwrap().is_err());
    // None of them was forwarded; the first that is belongs to a rank.
    let connecting = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        handshake::connect(&mut stream, &key, Purpose::Store).map(drop)
    });
    let forwarded = timeout(LONG, port.next()).await.unwrap().unwrap();
    drop(forwarded);
    drop(port);
    assert!(connecting.await.unwrap().is_err(), "there is no store here");
}
