//! Connections of a host's ranks to the driver's key-value store, carried by the link: a worker
//! needs no route to the driver, and the driver no port that others can reach. The agent's end is
//! `agent/store_port.rs`, the driver's is in `driver/fleet/agent_reader.rs`.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::link::{Channel, ChannelReceiver, ChannelSender};

/// Read at once.
const CHUNK: usize = 16 << 10;

/// Carries bytes in both directions until both have ended.
pub(crate) async fn carry(stream: TcpStream, channel: Channel) {
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
