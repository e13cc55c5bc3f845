//! The one connection between the driver and the agent of a host: messages in both directions,
//! channels of bytes beside them, and signs of life.
//!
//! - `LINK-1` an end that receives nothing for [`SILENCE`] gives the other up; each end says
//!   something every [`PULSE`] at least.
//! - `LINK-2` reading never waits for the users of what was read, so a console that is paused is
//!   not taken for a dead network.
//! - `LINK-3` the last event of every link is [`LinkEvent::Lost`].
//!
//! Knows no host and no process; any pair of byte streams will do: a TCP connection, or the
//! standard input and output of an `ssh`.

mod channel;
pub(crate) mod frame;
mod packet;
mod sealed;

use std::{io, marker::PhantomData, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

use channel::Ports;
pub(crate) use channel::{Channel, ChannelReceiver, ChannelSender};
use packet::Packet;
pub(crate) use sealed::{SealedStream, split};

/// How often an end gives a sign of life.
const PULSE: Duration = Duration::from_secs(1);

/// How long an end may be silent. With the time it takes to end a job afterwards it has to stay
/// below ten seconds.
pub(crate) const SILENCE: Duration = Duration::from_millis(5500);

/// An event of a link: `M` are messages, `P` is what channels are opened for.
#[derive(Debug)]
pub(crate) enum LinkEvent<M, P> {
    /// The other end says something.
    Message(M),
    /// The other end has opened a channel.
    ChannelOpened(P, Channel),
    /// The connection is over, and why.
    Lost(Loss),
}

/// Why a link is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The other end has closed it, or its process is gone.
    Closed,
    /// Nothing was received for [`SILENCE`].
    Silent,
    /// What arrived makes no sense, or the system reports an error.
    Broken(String),
}

/// The sending side; may be cloned. Never waits.
#[derive(Debug, Clone)]
pub(crate) struct LinkSender(mpsc::UnboundedSender<Option<Packet>>);

impl LinkSender {
    fn send(&self, packet: Packet) {
        // A link that is gone reports it as an event.
        let _ = self.0.send(Some(packet));
    }

    /// Says something to the other end.
    pub(crate) fn send_message(&self, message: &impl Serialize) {
        self.send(Packet::Message(to_json(message)));
    }
}

/// One end of a link.
#[derive(Debug)]
pub(crate) struct AgentLink<M, P> {
    outgoing: LinkSender,
    incoming: mpsc::UnboundedReceiver<LinkEvent<M, P>>,
    ports: Ports,
    next_channel: u32,
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
    _purpose: PhantomData<P>,
}

impl<M, P> AgentLink<M, P>
where
    M: DeserializeOwned + Send + 'static,
    P: DeserializeOwned + Send + 'static,
{
    /// A link over these two streams.
    pub(crate) fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (sender, queue) = mpsc::unbounded_channel();
        let outgoing = LinkSender(sender);
        let (events, incoming) = mpsc::unbounded_channel();
        let ports = Ports::default();
        let reader_task = LinkReader {
            ports: ports.clone(),
            outgoing: outgoing.clone(),
            events,
        };
        Self {
            outgoing,
            incoming,
            ports,
            next_channel: 0,
            writer: tokio::spawn(write(queue, writer)),
            reader: tokio::spawn(reader_task.run(BufReader::new(reader))),
            _purpose: PhantomData,
        }
    }

    /// The sending side.
    pub(crate) fn outgoing(&self) -> &LinkSender {
        &self.outgoing
    }

    /// Opens a channel. Only one of the two ends of a link may do so.
    pub(crate) fn open(&mut self, purpose: &impl Serialize) -> Channel {
        let channel = self.next_channel;
        self.next_channel += 1;
        let opened = self.ports.open(channel, &self.outgoing);
        self.outgoing.send(Packet::Open {
            channel,
            purpose: to_json(purpose),
        });
        opened
    }

    /// Waits for the next event.
    pub(crate) async fn next_event(&mut self) -> LinkEvent<M, P> {
        let event = self.incoming.recv().await;
        event.unwrap_or(LinkEvent::Lost(Loss::Closed))
    }

    /// Sends what is still to be sent, as far as `limit` allows, and hangs up.
    pub(crate) async fn finish(self, limit: Duration) {
        let _ = self.outgoing.0.send(None);
        let _ = timeout(limit, self.writer).await;
        self.reader.abort();
        self.ports.clear();
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    // Our own messages are plain data; there is nothing in them that JSON cannot hold.
    serde_json::to_vec(value).unwrap_or_default()
}

async fn write(
    mut queue: mpsc::UnboundedReceiver<Option<Packet>>,
    mut stream: impl AsyncWrite + Unpin,
) {
    loop {
        let packet = match timeout(PULSE, queue.recv()).await {
            Ok(Some(Some(packet))) => packet,
            Ok(Some(None) | None) => break,
            Err(_) => Packet::Alive,
        };
        let written = async {
            let frame = packet.encode().map_err(frame::invalid)?;
            stream.write_all(&frame).await?;
            stream.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "a link cannot be written any more");
            break;
        }
    }
    let _ = stream.shutdown().await;
}

/// The next packet; `None` if the stream ends between two.
async fn read_packet(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Packet>> {
    let body = frame::read(stream, packet::FRAME_LIMIT).await?;
    body.map(Packet::decode).transpose()
}

/// The reading side.
struct LinkReader<M, P> {
    ports: Ports,
    outgoing: LinkSender,
    events: mpsc::UnboundedSender<LinkEvent<M, P>>,
}

impl<M: DeserializeOwned, P: DeserializeOwned> LinkReader<M, P> {
    async fn run(self, mut stream: impl AsyncRead + Unpin) {
        let loss = loop {
            match timeout(SILENCE, read_packet(&mut stream)).await {
                Ok(Ok(Some(packet))) => {
                    if let Err(error) = self.take(packet) {
                        break Loss::Broken(error.to_string());
                    }
                }
                Ok(Ok(None)) => break Loss::Closed,
                Ok(Err(error)) => break closed_or_broken(&error),
                Err(_) => break Loss::Silent,
            }
        };
        self.ports.clear();
        let _ = self.events.send(LinkEvent::Lost(loss));
    }

    fn take(&self, packet: Packet) -> Result<(), serde_json::Error> {
        let event = match packet {
            Packet::Message(bytes) => LinkEvent::Message(serde_json::from_slice(&bytes)?),
            Packet::Open { channel, purpose } => {
                let purpose = serde_json::from_slice(&purpose)?;
                LinkEvent::ChannelOpened(purpose, self.ports.open(channel, &self.outgoing))
            }
            Packet::Data { channel, bytes } => {
                self.ports.deliver(channel, bytes);
                return Ok(());
            }
            Packet::Credit { channel, bytes } => {
                self.ports.credit(channel, bytes);
                return Ok(());
            }
            Packet::Close { channel } => {
                self.ports.close(channel);
                return Ok(());
            }
            Packet::Alive => return Ok(()),
        };
        let _ = self.events.send(event);
        Ok(())
    }
}

fn closed_or_broken(error: &io::Error) -> Loss {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof => Loss::Closed,
        _ => Loss::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
