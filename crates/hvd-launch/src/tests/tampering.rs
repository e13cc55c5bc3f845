//! A proxy between driver and agent changes, drops, repeats, reorders and replays records: the link
//! is lost, with that as its reason, and no order and no notice is changed.

use std::{net::Ipv4Addr, time::Duration};

use hvd_rendezvous::{JobKey, Purpose};
use hvd_testkit::{Attack, Direction, Tampering, TamperingProxy};
use tokio::time::timeout;

use crate::{
    agent::driver_connection::{connect, introduce},
    driver::agent_port::{AgentIdentity, AgentPort},
    link::{AgentLink, LinkEvent, Loss, split},
};

const LONG: Duration = Duration::from_secs(15);

type TestLink = AgentLink<String, String>;

/// Rounds of a session that is only recorded: enough for a record after the tampered one.
const RECORDED_ROUNDS: usize = 10;

/// Sends numbers until the link is lost or `rounds` are over, and receives those of the other end.
async fn talk(mut link: TestLink, rounds: usize) -> Loss {
    for round in 0..rounds {
        link.outgoing().send_message(&format!("order {round}"));
        match timeout(LONG, link.next_event()).await.unwrap() {
            LinkEvent::Message(text) => {
                assert_eq!(text, format!("order {round}"), "a changed order");
            }
            LinkEvent::ChannelOpened(..) => panic!("a channel that was not opened"),
            LinkEvent::Lost(loss) => return loss,
        }
    }
    Loss::Closed
}

/// How a driver and an agent reach each other.
#[derive(Debug, Clone, Copy)]
enum Start {
    /// The driver started the agent, which calls back with its number.
    Ssh,
    /// The agent was started beforehand and introduces itself with the token.
    Token,
}

/// One session through the proxy: how both ends of the link lost it.
async fn session(proxy: &TamperingProxy, start: Start, rounds: usize) -> [Loss; 2] {
    let key = JobKey::generate().unwrap();
    let port = match start {
        Start::Ssh => AgentPort::open(&key),
        Start::Token => AgentPort::open_at(0, &key),
    };
    let port = port.unwrap();
    let identity = AgentIdentity {
        name: "b".to_owned(),
        ..AgentIdentity::default()
    };
    let arrival = port.expect(7, identity);
    let target = (Ipv4Addr::LOCALHOST, port.port()).into();
    let way = proxy.in_front_of(target, "127.0.0.1:0".parse().unwrap());
    let (theirs, way) = (key.clone(), way.unwrap());
    let connecting = tokio::task::spawn_blocking(move || match start {
        Start::Ssh => connect(way, &theirs, 7),
        Start::Token => introduce(&way.to_string(), &theirs, "b"),
    });
    let driver = timeout(LONG, arrival).await.unwrap().unwrap();
    let agent = connecting.await.unwrap().unwrap();
    let start = |secure| {
        let (reader, writer) = split(secure).unwrap();
        TestLink::start(reader, writer)
    };
    let losses = tokio::join!(talk(start(driver), rounds), talk(start(agent), rounds));
    losses.into()
}

async fn attempt(tampering: Tampering, start: Start) {
    let proxy = TamperingProxy::new(tampering);
    if !proxy.is_ready() {
        session(&proxy, start, RECORDED_ROUNDS).await;
        assert!(proxy.is_ready(), "{tampering:?}: nothing was recorded");
    }
    let losses = session(&proxy, start, usize::MAX).await;
    assert_eq!(proxy.done(), 1, "{tampering:?}");
    let tampered = Loss::Broken(hvd_rendezvous::session::TAMPERED.to_owned());
    // Bytes that never come are noticed by their absence.
    let is_noticed = losses.contains(&tampered) || tampering.attack == Attack::Stretch;
    assert!(is_noticed, "{start:?}, {tampering:?}: {losses:?}");
}

#[tokio::test]
async fn every_attack_on_an_agents_link_is_noticed_and_changes_nothing() {
    for start in [Start::Ssh, Start::Token] {
        for attack in Attack::ALL {
            for direction in Direction::BOTH {
                let tampering = Tampering {
                    purpose: Purpose::Agent as u8,
                    direction,
                    after: 5,
                    attack,
                };
                attempt(tampering, start).await;
            }
        }
    }
}
