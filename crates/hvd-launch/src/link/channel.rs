//! A stream of bytes inside a link, one of many. A receiver that is slow holds up its own sender
//! and no other: at most [`WINDOW`] bytes of a channel are on their way, and everything else on
//! the link, signs of life first of all, goes on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Semaphore, mpsc};

use super::{LinkSender, packet::Packet};

/// Bytes of one direction of a channel that may be on their way.
const WINDOW: usize = 256 << 10;

/// Bytes in one frame; small enough that channels take turns.
const PIECE: usize = 64 << 10;

/// Both directions of a channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) sender: ChannelSender,
    pub(crate) receiver: ChannelReceiver,
}

/// The link is gone.
#[derive(Debug)]
pub(crate) struct Gone;

/// Where a channel's bytes go in. Dropped, it closes this direction.
#[derive(Debug)]
pub(crate) struct ChannelSender {
    channel: u32,
    outgoing: LinkSender,
    window: Arc<Semaphore>,
}

impl ChannelSender {
    /// Sends all of it, as fast as the other end takes it.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        for piece in bytes.chunks(PIECE) {
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let permits = self.window.acquire_many(length).await.map_err(|_| Gone)?;
            permits.forget();
            self.outgoing.send(Packet::Data {
                channel: self.channel,
                bytes: piece.to_vec(),
            });
        }
        Ok(())
    }
}

impl Drop for ChannelSender {
    fn drop(&mut self) {
        self.outgoing.send(Packet::Close {
            channel: self.channel,
        });
    }
}

/// Where a channel's bytes come out.
#[derive(Debug)]
pub(crate) struct ChannelReceiver {
    channel: u32,
    outgoing: LinkSender,
    bytes: mpsc::UnboundedReceiver<Vec<u8>>,
    /// Bytes handed out and not yet given as credit.
    used: usize,
}

impl ChannelReceiver {
    /// The next bytes; `None` at the end of the channel or of the link. The bytes before are taken
    /// as used up.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        let used = u32::try_from(std::mem::take(&mut self.used)).unwrap_or(u32::MAX);
        if used > 0 {
            self.outgoing.send(Packet::Credit {
                channel: self.channel,
                bytes: used,
            });
        }
        let bytes = self.bytes.recv().await?;
        self.used = bytes.len();
        Some(bytes)
    }
}

/// The channels of one link, as its reader sees them.
#[derive(Debug, Clone, Default)]
pub(super) struct Ports(Arc<Mutex<HashMap<u32, Port>>>);

#[derive(Debug)]
struct Port {
    /// Gone once the other end has closed its direction.
    bytes: Option<mpsc::UnboundedSender<Vec<u8>>>,
    window: Arc<Semaphore>,
}

impl Ports {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Port>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new channel; a number that is in use already is taken over.
    pub(super) fn open(&self, channel: u32, outgoing: &LinkSender) -> Channel {
        let window = Arc::new(Semaphore::new(WINDOW));
        let (bytes, receiver) = mpsc::unbounded_channel();
        let port = Port {
            bytes: Some(bytes),
            window: Arc::clone(&window),
        };
        self.lock().insert(channel, port);
        let outgoing = outgoing.clone();
        Channel {
            sender: ChannelSender {
                channel,
                outgoing: outgoing.clone(),
                window,
            },
            receiver: ChannelReceiver {
                channel,
                outgoing,
                bytes: receiver,
                used: 0,
            },
        }
    }

    /// Bytes have arrived; the receiver may be gone.
    pub(super) fn deliver(&self, channel: u32, bytes: Vec<u8>) {
        if let Some(Port {
            bytes: Some(sender),
            ..
        }) = self.lock().get(&channel)
        {
            let _ = sender.send(bytes);
        }
    }

    /// The other end has used up so many bytes.
    pub(super) fn credit(&self, channel: u32, bytes: u32) {
        if let Some(port) = self.lock().get(&channel) {
            let free = WINDOW.saturating_sub(port.window.available_permits());
            port.window.add_permits((bytes as usize).min(free));
        }
    }

    /// The other end sends nothing more.
    pub(super) fn close(&self, channel: u32) {
        let mut ports = self.lock();
        if let Some(port) = ports.get_mut(&channel) {
            port.bytes = None;
            // The sender holds the other reference.
            if Arc::strong_count(&port.window) == 1 {
                ports.remove(&channel);
            }
        }
    }

    /// The link is gone: every channel ends, and no sender waits for credit any more.
    pub(super) fn clear(&self) {
        for (_, port) in self.lock().drain() {
            port.window.close();
        }
    }
}
