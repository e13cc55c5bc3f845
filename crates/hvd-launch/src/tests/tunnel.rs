//! A rank of an agent's host talks to the driver's key-value store: through the agent's port, its
//! link and the driver. A proxy before the port, or on the link, changes, drops, repeats, reorders
//! and replays records: rank and driver report it, and no value is changed.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use hvd_rendezvous::{Client, JobKey, Purpose, Server, Store, session::TAMPERED};
use hvd_testkit::{Attack, Direction, Tampering, TamperingProxy};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{
    agent::{
        driver_connection::connect,
        store_port::{self, StorePort},
    },
    driver::{
        agent_port::{AgentIdentity, AgentPort},
        fleet::{HostEvent, agent_reader::AgentReader},
        start_agent::LinkToAgent,
    },
    link::{AgentLink, LinkEvent, Loss, split},
    protocol::Opening,
};

/// How long a rank waits for the store.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longer than a link may be silent.
const LONG: Duration = Duration::from_secs(15);
const ROUNDS: usize = 20;

/// The link as the agent sees it.
type LinkToDriver = AgentLink<String, ()>;

/// Where the proxy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyPosition {
    /// Between the ranks and their agent.
    StorePort,
    /// Between the agent and the driver.
    Link,
}

impl ProxyPosition {
    fn purpose(self) -> Purpose {
        match self {
            Self::StorePort => Purpose::Store,
            Self::Link => Purpose::Agent,
        }
    }
}

/// A driver with its store, an agent, and the link between them.
struct Tunnel {
    key: JobKey,
    server: Server,
    /// Where ranks reach the store.
    store_port: SocketAddr,
    /// Where a rank reaches it that is not attacked at the store port.
    direct_port: SocketAddr,
    /// What the driver reports of the agent's host.
    reports: mpsc::UnboundedReceiver<(usize, HostEvent)>,
    /// How the agent lost its link.
    agent: JoinHandle<Loss>,
}

impl Tunnel {
    async fn open(proxy: &TamperingProxy, position: ProxyPosition) -> Self {
        // Where to connect to reach `address`.
        let through_proxy = |address: SocketAddr, at: ProxyPosition| {
            if at != position {
                return address;
            }
            let bind = "127.0.0.1:0".parse().unwrap();
            proxy.in_front_of(address, bind).unwrap()
        };
        let key = JobKey::generate().unwrap();
        let server = Server::start("127.0.0.1:0", &key).unwrap();
        let agents = AgentPort::open(&key).unwrap();
        let arrival = agents.expect(7, AgentIdentity::default());
        let driver = SocketAddr::from((Ipv4Addr::LOCALHOST, agents.port()));
        let driver = through_proxy(driver, ProxyPosition::Link);
        let agent = tokio::task::spawn_blocking({
            let key = key.clone();
            move || connect(driver, &key, 7).unwrap()
        });
        let (reader, writer) = split(timeout(LONG, arrival).await.unwrap().unwrap()).unwrap();
        let (events, reports) = mpsc::unbounded_channel();
        let agent_reader = AgentReader {
            host: 0,
            store: Some(server.address()),
            events,
        };
        tokio::spawn(agent_reader.run(LinkToAgent::start(reader, writer), None));
        let (reader, writer) = split(agent.await.unwrap()).unwrap();
        let (port, direct_port) = StorePort::open(&key).unwrap();
        let agent = tokio::spawn(serve(LinkToDriver::start(reader, writer), port));
        Self {
            key,
            server,
            store_port: through_proxy(direct_port, ProxyPosition::StorePort),
            direct_port,
            reports,
            agent,
        }
    }

    /// A rank puts and gets values until something goes wrong; returns what went wrong.
    async fn converse(&self, rank: usize, port: SocketAddr) -> Result<(), String> {
        let (key, port) = (self.key.clone(), port.port());
        let talking = tokio::task::spawn_blocking(move || {
            let connected = Client::connect("127.0.0.1", port, &key, PATIENCE);
            let mut client = connected.map_err(|error| error.to_string())?;
            for round in 0..ROUNDS {
                let (key, value) = (format!("{rank}/{round}"), format!("value {round}"));
                let put = client.put(&key, value.as_bytes());
                put.map_err(|error| error.to_string())?;
                let got = client.get(&key, PATIENCE);
                let got = got.map_err(|error| error.to_string())?;
                assert_eq!(got, value.as_bytes(), "a value was changed");
            }
            Ok(())
        });
        talking.await.unwrap()
    }

    /// What the rank has stored is what it said.
    fn assert_unchanged(&self, rank: usize) {
        for round in 0..ROUNDS {
            let stored = self.server.get(&format!("{rank}/{round}"));
            let expected = format!("value {round}");
            assert!(stored.is_none_or(|it| it == expected.as_bytes()));
        }
    }

    /// How driver and agent lost their link.
    async fn losses(mut self) -> (String, Loss) {
        let report = timeout(LONG, self.reports.recv()).await.unwrap();
        let Some((0, HostEvent::Lost(report))) = report else {
            panic!("the driver received {report:?}");
        };
        (report, timeout(LONG, self.agent).await.unwrap().unwrap())
    }
}

/// Forwards the connections of ranks until the link is lost, as an agent does.
async fn serve(mut link: LinkToDriver, mut port: StorePort) -> Loss {
    loop {
        tokio::select! {
            event = link.next_event() => match event {
                LinkEvent::Lost(loss) => return loss,
                other => panic!("the agent received {other:?}"),
            },
            Some(connection) = port.next() => {
                let channel = link.open(&Opening::Store);
                tokio::spawn(store_port::enter(connection, channel));
            }
        }
    }
}

async fn attempt(tampering: Tampering, position: ProxyPosition) {
    let proxy = TamperingProxy::new(tampering);
    if !proxy.is_ready() {
        // The session whose records are replayed.
        let recorded = Tunnel::open(&proxy, position).await;
        recorded.converse(0, recorded.store_port).await.unwrap();
        assert!(proxy.is_ready(), "{tampering:?}: nothing was recorded");
    }
    let tunnel = Tunnel::open(&proxy, position).await;
    let error = tunnel.converse(1, tunnel.store_port).await.unwrap_err();
    assert_eq!(proxy.done(), 1, "{position:?}, {tampering:?}");
    assert!(
        error.contains("key-value store"),
        "{position:?}, {tampering:?}: {error}"
    );
    tunnel.assert_unchanged(1);
    match position {
        // Other ranks of the host are not affected.
        ProxyPosition::StorePort => tunnel.converse(2, tunnel.direct_port).await.unwrap(),
        ProxyPosition::Link => {
            let (report, agent) = tunnel.losses().await;
            let tampered = Loss::Broken(TAMPERED.to_owned());
            // Bytes that never come are noticed by their absence.
            let is_noticed = report.contains(TAMPERED)
                || agent == tampered
                || tampering.attack == Attack::Stretch;
            assert!(is_noticed, "{tampering:?}: {report}; {agent:?}");
        }
    }
}

#[tokio::test]
async fn every_attack_on_a_tunnel_to_the_store_is_noticed_and_changes_nothing() {
    // Bytes that never arrive are waited for, so all attempts run at once.
    let mut attempts = JoinSet::new();
    for position in [ProxyPosition::StorePort, ProxyPosition::Link] {
        for attack in Attack::ALL {
            for direction in Direction::BOTH {
                let tampering = Tampering {
                    purpose: position.purpose() as u8,
                    direction,
                    after: 5,
                    attack,
                };
                attempts.spawn(attempt(tampering, position));
            }
        }
    }
    while let Some(ended) = attempts.join_next().await {
        ended.unwrap();
    }
}
