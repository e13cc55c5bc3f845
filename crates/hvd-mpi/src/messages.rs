//! An exchange of whole messages: sent from where they are, received into buffers of our own, which
//! the caller reads in place. A long message travels as several of up to [`LONGEST`] bytes, of which
//! [`AT_ONCE`] are under way in each direction, so that the caller's work on one overlaps the next.
//!
//! Received bytes never go to a tensor directly: after a failure MPI may still write to what it was
//! given (`REQ-1` of `ffi/request.rs`), while a tensor is free at once.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use hvd_transport::{AfterLook, PART_ALIGNMENT, TakePart};

use crate::error::CallError;
use crate::ffi::{Address, BorrowedSend, CallResult, Calls, Receive};
use crate::stream::{Buffers, CHUNK};

/// The longest message that MPI gets.
const LONGEST: usize = CHUNK;
const _: () = assert!(LONGEST.is_multiple_of(PART_ALIGNMENT));

/// How many are under way in each direction.
const AT_ONCE: usize = 3;

/// Runs an exchange to its end, or until `after_look` gives it up.
pub(crate) fn exchange(
    calls: &Arc<dyn Calls>,
    buffers: &mut Buffers,
    (to, bytes): (Address, &[u8]),
    (from, length): (Address, usize),
    take_part: TakePart<'_>,
    after_look: AfterLook<'_>,
) -> CallResult<ControlFlow<()>> {
    let mut outgoing = MessageToPeer {
        to,
        bytes,
        parts: MessageParts::of(bytes.len()),
        sends: VecDeque::with_capacity(AT_ONCE),
    };
    let mut incoming = MessageFromPeer {
        from,
        parts: MessageParts::of(length),
        receives: VecDeque::with_capacity(AT_ONCE),
    };
    loop {
        let taken = incoming.look(calls, buffers, take_part)?;
        let sent = outgoing.look(calls)?;
        if incoming.receives.is_empty() && outgoing.sends.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        if after_look(taken || sent).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
}

/// The parts of a message of which none has been started yet.
struct MessageParts(Range<usize>);

impl MessageParts {
    fn of(length: usize) -> Self {
        Self(0..length)
    }
}

impl Iterator for MessageParts {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let Range { start, end } = self.0;
        let middle = end.min(start + LONGEST);
        self.0.start = middle;
        (start < middle).then_some(start..middle)
    }
}

struct MessageToPeer<'a> {
    to: Address,
    bytes: &'a [u8],
    parts: MessageParts,
    sends: VecDeque<BorrowedSend<'a>>,
}

impl MessageToPeer<'_> {
    /// Starts what may be started; true if a part has left.
    fn look(&mut self, calls: &Arc<dyn Calls>) -> CallResult<bool> {
        let mut has_left = false;
        while let Some(send) = self.sends.front_mut() {
            if !send.test()? {
                break;
            }
            self.sends.pop_front();
            has_left = true;
        }
        while self.sends.len() < AT_ONCE
            && let Some(part) = self.parts.next()
        {
            let send = BorrowedSend::start(calls, self.to, &self.bytes[part])?;
            self.sends.push_back(send);
        }
        Ok(has_left)
    }
}

struct MessageFromPeer {
    from: Address,
    parts: MessageParts,
    receives: VecDeque<(Range<usize>, Receive)>,
}

impl MessageFromPeer {
    /// Passes on the next part, if it is there, and has others received meanwhile.
    fn look(
        &mut self,
        calls: &Arc<dyn Calls>,
        buffers: &mut Buffers,
        take_part: TakePart<'_>,
    ) -> CallResult<bool> {
        while self.receives.len() < AT_ONCE
            && let Some(part) = self.parts.next()
        {
            let receive = Receive::start(calls, self.from, buffers.take())?;
            self.receives.push_back((part, receive));
        }
        let Some((part, receive)) = self.receives.front_mut() else {
            return Ok(false);
        };
        let Some((buffer, count)) = receive.test()? else {
            return Ok(false);
        };
        if count != part.len() {
            let text = format!("{count} bytes arrived in place of {}", part.len());
            let function = "MPI_Irecv";
            return Err(CallError { function, text });
        }
        take_part(part.start, &buffer[..count]);
        buffers.give_back(buffer);
        self.receives.pop_front();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_message() {
        assert_eq!(MessageParts::of(0).count(), 0);
        assert_eq!(MessageParts::of(1).next(), Some(0..1));
        assert_eq!(MessageParts::of(1).count(), 1);
        let parts: Vec<_> = MessageParts::of(2 * LONGEST + 5).collect();
        let last = 2 * LONGEST..2 * LONGEST + 5;
        assert_eq!(parts, [0..LONGEST, LONGEST..2 * LONGEST, last]);
    }
}
