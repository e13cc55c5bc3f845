//! A lane that is spread over several connections.
//!
//! A single connection is not always as fast as the path: networks limit the rate of one, one
//! lost packet halves it, and the kernel holds only so many bytes of one while this process is not
//! scheduled. So the bytes of a lane go out in stripes, to one connection after the other, and the
//! receiver takes them from one after the other:
//!
//! ```text
//! lane          | stripe 0 | stripe 1 | stripe 2 | stripe 3 | 4 ...
//! connection 0  | stripe 0 | stripe 2 | 4 ...
//! connection 1  | stripe 1 | stripe 3 | ...
//! ```
//!
//! Stripes have one length, so that both ends know where each byte is and nothing is added to the
//! bytes (`WIRE-1`). A message shorter than a stripe costs what it costs on one connection.

use std::time::Instant;

use super::connection::Connection;

/// Bytes of a stripe: long enough that a system call moves much, short enough that the kernel's
/// buffers hold several.
pub(crate) const STRIPE: usize = 128 * 1024;

/// The connections of one lane to one peer, one at least.
#[derive(Debug)]
pub(crate) struct Bundle {
    strands: Vec<Connection>,
    stripe: usize,
    outgoing: StripeCursor,
    incoming: StripeCursor,
}

/// Where the next byte goes, or comes from.
#[derive(Debug, Clone, Copy)]
struct StripeCursor {
    strand: usize,
    /// Bytes until the end of the stripe, one at least.
    left: usize,
}

impl Bundle {
    /// A lane over `strands` in stripes of `stripe` bytes; order and length as both ends agree on.
    pub(crate) fn new(strands: Vec<Connection>, stripe: usize) -> Self {
        let start = StripeCursor {
            strand: 0,
            left: stripe,
        };
        Self {
            strands,
            stripe,
            outgoing: start,
            incoming: start,
        }
    }

    /// The cursor after `moved` more bytes, which do not go beyond the end of the stripe.
    fn after(&self, at: StripeCursor, moved: usize) -> StripeCursor {
        match at.left - moved {
            0 => StripeCursor {
                strand: (at.strand + 1) % self.strands.len(),
                left: self.stripe,
            },
            left => StripeCursor { left, ..at },
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            let at = self.outgoing;
            let stripe = &bytes[sent..bytes.len().min(sent + at.left)];
            let moved = self.strands[at.strand].send(stripe);
            self.outgoing = self.after(at, moved);
            sent += moved;
            if moved < stripe.len() {
                break;
            }
        }
        sent
    }

    pub(super) fn recv(&mut self, buffer: &mut [u8]) -> usize {
        let mut received = 0;
        while received < buffer.len() {
            let at = self.incoming;
            let end = buffer.len().min(received + at.left);
            let stripe = &mut buffer[received..end];
            let moved = self.strands[at.strand].recv(stripe);
            self.incoming = self.after(at, moved);
            received += moved;
            if moved < stripe.len() {
                break;
            }
        }
        received
    }

    /// The connection on which the next byte leaves.
    pub(super) fn outgoing(&self) -> usize {
        self.outgoing.strand
    }

    /// The connection on which the next byte arrives.
    pub(super) fn incoming(&self) -> usize {
        self.incoming.strand
    }

    pub(super) fn strand(&mut self, strand: usize) -> &mut Connection {
        &mut self.strands[strand]
    }

    pub(super) fn strands(&self) -> &[Connection] {
        &self.strands
    }

    /// Whether bytes have arrived on the connection that is next, of which the kernel does not know.
    pub(super) fn has_input(&self) -> bool {
        self.strands[self.incoming.strand].has_input()
    }

    /// Whether one of the connections ended with bytes that the other end did not send.
    pub(super) fn is_tampered(&self) -> bool {
        self.strands.iter().any(|strand| strand.is_tampered)
    }

    /// When one of the connections was seen to be closed: then the lane is.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.strands.iter().find_map(|strand| strand.ended)
    }
}
