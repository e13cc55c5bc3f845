//! A proxy between driver and agent changes, drops, repeats, reorders and replays records: the link
//! is lost, with that as its reason, and no order and no notice is changed.

use std::{net::Ipv4Addr, time::Duration};

use hvd_rendezvous::{JobKey, Purpose};
use hvd_testkit::{Attack, Direction, Tampering, TamperingProxy};
use tokio::time::timeout;

use crate::{
    agent::driver_connection::connect,
    driver::agent_port::{AgentIdentity, AgentPort},
    link::{AgentLink, LinkEvent, Loss, split},
};

const LONG: Duration = Duration::from_secs(15);

type TestLink = AgentLink<String, String>;

/// Sends numbers until the link is lost, and receives those of the other end.
async fn talk(mut link: TestLink) -> Loss {
    for round in 0.. {
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

async fn attempt(tampering: Tampering) -> [Loss; 2] {
    let key = JobKey::generate().unwrap();
    let port = AgentPort::open(&key).unwrap();
    let arrival = port.expect(7, AgentIdentity::default());
    let target = (Ipv4Addr::LOCALHOST, port.port()).into();
    let proxy = TamperingProxy::new(tampering);
    let way = proxy.in_front_of(target, "127.0.0.1:0".parse().unwrap());
    let (theirs, way) = (key.clone(), way.unwrap());
    let connecting = tokio::task::spawn_blocking(move || connect(way, &theirs, 7));
    let driver = timeout(LONG, arrival).await.unwrap().unwrap();
    let agent = connecting.await.unwrap().unwrap();
    let start = |secure| {
        let (reader, writer) = split(secure).unwrap();
        TestLink::start(reader, writer)
    };
    let losses = tokio::join!(talk(start(driver)), talk(start(agent)));
    assert_eq!(proxy.done(), 1, "{tampering:?}");
    losses.into()
}

#[tokio::test]
async fn every_attack_on_an_agents_link_is_noticed_and_changes_nothing() {
    for attack in Attack::ALL {
        for direction in Direction::BOTH {
            let tampering = Tampering {
                purpose: Purpose::Agent as u8,
                direction,
                after: 5,
                attack,
            };
            let losses = attempt(tampering).await;
            let tampered = Loss::Broken(hvd_rendezvous::session::TAMPERED.to_owned());
            // Bytes that never come are noticed by their absence.
            let noticed = losses.contains(&tampered) || attack == Attack::Stretch;
            assert!(noticed, "{tampering:?}: {losses:?}");
        }
    }
}
