//! Connections of a host's ranks to the driver's key-value store, carried by the link: a worker
//! needs no route to the driver, and the driver no port that others can reach. Worker and store
//! prove the key to each other and encrypt what they say; the agent between them lets in only
//! connections whose first message was made with the key, so that strangers on its host reach
//! neither the link nor the driver.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use hvd_rendezvous::{
    Error as DoorError, JobKey, Purpose,
    accept::{AcceptedConnection, Acceptor, Hello, HelloOnly},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

use crate::link::{Channel, ChannelReceiver, ChannelSender};

/// Read at once.
const CHUNK: usize = 16 << 10;

/// The port of an agent at which the ranks of its host reach the store.
#[derive(Debug)]
pub(super) struct StoreDoor {
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    _acceptor: Acceptor<TcpListener>,
}

/// A rank's connection, and its first message, which the agent has read.
#[derive(Debug)]
pub(super) struct Arrival {
    stream: std::net::TcpStream,
    hello: Hello,
}

impl StoreDoor {
    /// Opens a port of the loopback interface for processes that know `key`.
    pub(super) fn open(key: &JobKey) -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (sender, arrivals) = mpsc::unbounded_channel();
        let serve = move |guest| receive(guest, &sender);
        let gate = HelloOnly(key.clone());
        let acceptor = Acceptor::start_with(gate, listener, "hvd-tunnel", serve)?;
        let door = Self {
            arrivals,
            _acceptor: acceptor,
        };
        Ok((door, address))
    }

    /// The next connection.
    pub(super) async fn next(&mut self) -> Option<Arrival> {
        self.arrivals.recv().await
    }
}

fn receive(
    guest: AcceptedConnection<std::net::TcpStream, Hello>,
    arrivals: &mpsc::UnboundedSender<Arrival>,
) -> hvd_rendezvous::Result<()> {
    if guest.purpose() != Purpose::Store {
        return Err(DoorError::Refused("only for the key-value store".into()));
    }
    let (kept, hello) = guest.keep();
    let stream = kept
        .try_clone()
        .map_err(DoorError::io("passing a connection on to the store"))?;
    // An agent that is about to end takes no more.
    let _ = arrivals.send(Arrival { stream, hello });
    Ok(())
}

/// The agent's end: carries a rank's connection through a channel.
pub(super) async fn enter(arrival: Arrival, channel: Channel) {
    let Arrival { stream, hello } = arrival;
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

/// The driver's end: connects a channel with the store.
pub(super) async fn connect(store: SocketAddr, channel: Channel) {
    match TcpStream::connect(store).await {
        Ok(stream) => carry(stream, channel).await,
        Err(error) => tracing::warn!(%error, "a remote rank cannot be connected with the store"),
    }
}

/// Carries bytes in both directions until both have ended.
async fn carry(stream: TcpStream, channel: Channel) {
    let _ = stream.set_nodelay(true);
    let (mut incoming, mut outgoing) = stream.into_split();
    let Channel {
        sender,
        mut receiver,
    } = channel;
    let there = upward(&mut incoming, sender);
    let back = downward(&mut receiver, &mut outgoing);
    tokio::join!(there, back);
}

async fn upward(stream: &mut (impl AsyncReadExt + Unpin), channel: ChannelSender) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length) = stream.read(&mut buffer).await {
        if length == 0 || channel.send(&buffer[..length]).await.is_err() {
            break;
        }
    }
}

async fn downward(channel: &mut ChannelReceiver, stream: &mut (impl AsyncWriteExt + Unpin)) {
    while let Some(bytes) = channel.receive().await {
        if stream.write_all(&bytes).await.is_err() {
            break;
        }
    }
    let _ = stream.shutdown().await;
}
