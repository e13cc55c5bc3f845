//! The port at which the ranks of an agent's host reach the driver's key-value store. Worker and
//! store prove the key to each other and encrypt what they say; the agent between them lets in only
//! connections whose first message was made with the key, so that strangers on its host reach
//! neither the link nor the driver.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use hvd_rendezvous::{
    Error as RendezvousError, JobKey, Purpose,
    accept::{AcceptedConnection, Acceptor, Hello, HelloOnly},
};
use tokio::{net::TcpStream, sync::mpsc};

use crate::{link::Channel, protocol::carry};

/// The port of an agent at which the ranks of its host reach the store.
#[derive(Debug)]
pub(crate) struct StorePort {
    connections: mpsc::UnboundedReceiver<RankConnection>,
    _acceptor: Acceptor<TcpListener>,
}

/// A rank's connection, and its first message, which the agent has read.
#[derive(Debug)]
pub(crate) struct RankConnection {
    stream: std::net::TcpStream,
    hello: Hello,
}

impl StorePort {
    /// Opens a port of the loopback interface for processes that know `key`.
    pub(crate) fn open(key: &JobKey) -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (sender, connections) = mpsc::unbounded_channel();
        let serve = move |accepted| receive(accepted, &sender);
        let gate = HelloOnly(key.clone());
        let acceptor = Acceptor::start_with(gate, listener, "hvd-tunnel", serve)?;
        let port = Self {
            connections,
            _acceptor: acceptor,
        };
        Ok((port, address))
    }

    /// The next connection.
    pub(crate) async fn next(&mut self) -> Option<RankConnection> {
        self.connections.recv().await
    }
}

fn receive(
    accepted: AcceptedConnection<std::net::TcpStream, Hello>,
    connections: &mpsc::UnboundedSender<RankConnection>,
) -> hvd_rendezvous::Result<()> {
    if accepted.purpose() != Purpose::Store {
        return Err(RendezvousError::Refused(
            "only for the key-value store".into(),
        ));
    }
    let (kept, hello) = accepted.keep();
    let stream = kept
        .try_clone()
        .map_err(RendezvousError::io("passing a connection on to the store"))?;
    // An agent that is about to end takes no more.
    let _ = connections.send(RankConnection { stream, hello });
    Ok(())
}

/// The agent's end: carries a rank's connection through a channel.
pub(crate) async fn enter(connection: RankConnection, channel: Channel) {
    let RankConnection { stream, hello } = connection;
    let adopted = stream
        .set_nonblocking(true)
        .and_then(|()| TcpStream::from_std(stream));
    match adopted {
        Ok(stream) => {
            if channel.sender.send(&hello).await.is_ok() {
                carry(stream, channel).await;
            }
        }
        Err(error) => tracing::warn!(%error, "a rank cannot be connected with the store"),
    }
}
