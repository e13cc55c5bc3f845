//! An agent comes to the driver by many ways at once; both have to settle on the same connection.

use std::{
    io::{Read, Write},
    net::IpAddr,
    path::PathBuf,
};

use hvd_rendezvous::JobKey;

use crate::{
    agent::driver_connection::connect_back,
    driver::agent_port::{AgentIdentity, AgentPort},
    protocol::{Assignment, Secret},
};

fn assignment(host: u32, key: &JobKey, port: u16) -> Assignment {
    let loopback = |last| IpAddr::from([127, 0, 0, last]);
    Assignment {
        version: String::new(),
        host,
        name: "b".to_owned(),
        secret: Secret::Key(key.to_hex()),
        driver: (1..9).map(loopback).collect(),
        driver_port: port,
        command: Vec::new(),
        directory: PathBuf::new(),
        container: None,
        environment: Vec::new(),
        port_range: None,
        ranks: Vec::new(),
    }
}

#[tokio::test]
async fn both_sides_settle_on_the_same_of_many_connections() {
    let key = JobKey::generate().unwrap();
    let port = AgentPort::open(&key).unwrap();
    for host in 0..20_u32 {
        let arrival = port.expect(host, AgentIdentity::default());
        let assignment = assignment(host, &key, port.port());
        let mut agent = connect_back(&assignment, &key).await.unwrap();
        let mut driver = arrival.await.unwrap();
        let mut ours = agent.session.over(&agent.stream);
        ours.write_all(&host.to_le_bytes()).unwrap();
        let mut received = [0; 4];
        let mut theirs = driver.session.over(&driver.stream);
        theirs.read_exact(&mut received).unwrap();
        assert_eq!(u32::from_le_bytes(received), host);
    }
}
