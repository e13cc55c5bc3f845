//! One peer's bytes in both directions, as messages of up to [`CHUNK`] bytes.
//!
//! Bytes are copied into and out of buffers of the stream's own (`REQ-1` of `ffi/request.rs`): an
//! operation that fails frees its tensors at once, while MPI may still use what it was given.
//! Several messages are in flight in each direction, so that neither side waits for the other's
//! copies. Their lengths grow from [`FIRST`] to [`CHUNK`]: a short operation overlaps copies and
//! transfers, and a long one pays for few messages.
//!
//! - `STREAM-1` messages of one sender arrive in the order in which they were sent, and receives
//!   complete into the buffers that were given first, so the bytes are in order (MPI's rule for one
//!   communicator and tag).
//! - `STREAM-2` once something is to be received from a peer, [`RECEIVES`] receives are always
//!   posted: a message then goes straight into its buffer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ffi::{Address, CallResult, Calls, Receive, Send};

/// Longest message. MPI agrees with the receiver before it sends a long one, so many short ones are
/// slower; algorithms hand over pieces of 128 KiB, which are sent together.
pub(crate) const CHUNK: usize = 2 * 1024 * 1024;

/// Longest message after a pause.
const FIRST: usize = 128 * 1024;

/// Messages to one peer that may be under way.
const SENDS: usize = 3;

/// Receives from one peer that are posted.
const RECEIVES: usize = 3;

/// Buffers that are not in use, for all streams of a rank.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Vec<Box<[u8]>>);

impl Buffers {
    pub(crate) fn take(&mut self) -> Box<[u8]> {
        let spare = self.0.pop();
        spare.unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice())
    }

    pub(crate) fn give_back(&mut self, buffer: Box<[u8]>) {
        self.0.push(buffer);
    }
}

/// The bytes to and from one peer.
#[derive(Debug)]
pub(crate) struct PeerStream {
    address: Address,
    /// A message that is being filled.
    open: Option<OpenMessage>,
    /// How long it may become.
    longest: usize,
    sends: VecDeque<Send>,
    receives: VecDeque<Receive>,
    /// A message that was received and not consumed to its end.
    front: Option<ArrivedMessage>,
}

#[derive(Debug)]
struct OpenMessage {
    buffer: Box<[u8]>,
    length: usize,
}

#[derive(Debug)]
struct ArrivedMessage {
    buffer: Box<[u8]>,
    consumed: usize,
    length: usize,
}

impl PeerStream {
    pub(crate) fn new(address: Address) -> Self {
        Self {
            address,
            open: None,
            longest: FIRST,
            sends: VecDeque::with_capacity(SENDS),
            receives: VecDeque::with_capacity(RECEIVES),
            front: None,
        }
    }

    /// Takes a beginning of `bytes`; 0 if too many messages are under way. A message leaves when it is
    /// full, or with [`Self::push`].
    pub(crate) fn send(
        &mut self,
        calls: &Arc<dyn Calls>,
        buffers: &mut Buffers,
        bytes: &[u8],
    ) -> CallResult<usize> {
        if bytes.is_empty() || !self.can_send(buffers)? {
            return Ok(0);
        }
        let open = self.open.get_or_insert_with(|| OpenMessage {
            buffer: buffers.take(),
            length: 0,
        });
        let room = &mut open.buffer[open.length..self.longest];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        open.length += count;
        if open.length == self.longest {
            self.longest = (2 * self.longest).min(CHUNK);
            self.push(calls)?;
        }
        Ok(count)
    }

    /// Sends what was taken and has not left.
    pub(crate) fn push(&mut self, calls: &Arc<dyn Calls>) -> CallResult<()> {
        if let Some(OpenMessage { buffer, length }) = self.open.take() {
            let send = Send::start(calls, self.address, buffer, length)?;
            self.sends.push_back(send);
        }
        Ok(())
    }

    /// Whether more bytes can be taken.
    pub(crate) fn can_send(&mut self, buffers: &mut Buffers) -> CallResult<bool> {
        if self.open.is_some() || self.sends.len() < SENDS {
            return Ok(true);
        }
        self.finish_sends(buffers)?;
        Ok(self.sends.len() < SENDS)
    }

    /// Takes back the buffers of messages that have left.
    pub(crate) fn finish_sends(&mut self, buffers: &mut Buffers) -> CallResult<()> {
        while let Some(send) = self.sends.front_mut() {
            let Some(buffer) = send.test()? else {
                break;
            };
            buffers.give_back(buffer);
            self.sends.pop_front();
        }
        if self.sends.is_empty() && self.open.is_none() {
            self.longest = FIRST;
        }
        Ok(())
    }

    /// Whether messages are under way to the peer.
    pub(crate) fn has_unsent(&self) -> bool {
        self.open.is_some() || !self.sends.is_empty()
    }

    /// Copies what has arrived to a beginning of `place`.
    pub(crate) fn receive(
        &mut self,
        calls: &Arc<dyn Calls>,
        buffers: &mut Buffers,
        place: &mut [u8],
    ) -> CallResult<usize> {
        let mut filled = 0;
        while filled < place.len() && self.has_arrived(calls, buffers)? {
            let Some(message) = &mut self.front else {
                break;
            };
            let ArrivedMessage {
                buffer,
                consumed,
                length,
            } = message;
            let count = (*length - *consumed).min(place.len() - filled);
            let bytes = &buffer[*consumed..*consumed + count];
            place[filled..filled + count].copy_from_slice(bytes);
            *consumed += count;
            filled += count;
            if consumed == length
                && let Some(message) = self.front.take()
            {
                self.post(calls, message.buffer)?;
            }
        }
        Ok(filled)
    }

    /// Whether bytes of the peer are there.
    pub(crate) fn has_arrived(
        &mut self,
        calls: &Arc<dyn Calls>,
        buffers: &mut Buffers,
    ) -> CallResult<bool> {
        if self.front.is_some() {
            return Ok(true);
        }
        while self.receives.len() < RECEIVES {
            self.post(calls, buffers.take())?;
        }
        let Some(receive) = self.receives.front_mut() else {
            return Ok(false);
        };
        let Some((buffer, length)) = receive.test()? else {
            return Ok(false);
        };
        self.receives.pop_front();
        self.front = Some(ArrivedMessage {
            buffer,
            consumed: 0,
            length,
        });
        Ok(true)
    }

    fn post(&mut self, calls: &Arc<dyn Calls>, buffer: Box<[u8]>) -> CallResult<()> {
        let receive = Receive::start(calls, self.address, buffer)?;
        self.receives.push_back(receive);
        Ok(())
    }

    /// Asks for the end of all receives, which nothing will be sent for.
    pub(crate) fn cancel_receives(&mut self) -> CallResult<()> {
        self.receives.iter().try_for_each(Receive::cancel)
    }

    /// Drops the requests that have completed; true if none is left.
    pub(crate) fn is_finished(&mut self, buffers: &mut Buffers) -> CallResult<bool> {
        self.finish_sends(buffers)?;
        while let Some(receive) = self.receives.front_mut() {
            if receive.test()?.is_none() {
                break;
            }
            self.receives.pop_front();
        }
        Ok(self.sends.is_empty() && self.receives.is_empty())
    }
}
