//! Trying an address of another host: is there a listener, is it the host we mean, how far
//! is it, how fast.
//!
//! Each host opens one [`ProbePort`]; the others try it with [`probe`] at every address it has.
//! Two hosts may well have the same address, that of a bridge for containers, so an answer counts
//! only with the identity that was expected. Which address is used in the end is decided
//! elsewhere.
//!
//! After the handshake of `hvd-rendezvous`, numbers little endian:
//!
//! ```text
//! port    -> caller   identity u32
//! caller  -> port     1 u8 | anything, 8 bytes              a ping
//! port    -> caller   the same 8 bytes
//! caller  -> port     2 u8 | length u32 | length bytes      at most 64 MiB, to be forgotten
//! port    -> caller   length u32
//! ```

mod failure;
mod port;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use hvd_rendezvous::{
    JobKey, Purpose, SecureSession,
    deadline::{self, Timed},
    handshake,
};
use serde::{Deserialize, Serialize};

pub(crate) use self::{failure::ProbeFailure, port::ProbePort};

const PING: u8 = 1;
const SWALLOW: u8 = 2;

/// Length of what a ping carries.
const ECHO: usize = 8;

/// The most that one request may ask a port to swallow.
const LARGEST: u32 = 64 * 1024 * 1024;

/// The first load of a measured way; each further one is so many times larger.
const FIRST_LOAD: u32 = 64 * 1024;
const GROWTH: u32 = 4;

/// The best of so many round trips is the distance.
const PINGS: u64 = 3;

/// How often a connection that was cut during the handshake is tried; a busy acceptor cuts honest
/// callers now and then.
const ATTEMPTS: u32 = 3;

/// Bytes handed to the kernel at a time.
const PIECE: usize = 256 * 1024;

/// An address of another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ProbeTarget {
    /// Number of the host that should answer.
    pub(crate) host: u32,
    pub(crate) address: SocketAddr,
}

/// The round trip to the host of identity `expected` at `target`.
pub(crate) fn probe(
    target: SocketAddr,
    key: &JobKey,
    expected: u32,
    timeout: Duration,
) -> Result<Duration, ProbeFailure> {
    let end = deadline::after(timeout);
    let mut call = ProbeConnection::open(target, key, end)?;
    if call.identity != expected {
        return Err(ProbeFailure::AnotherHost {
            identity: call.identity,
        });
    }
    let mut best = Duration::MAX;
    for number in 0..PINGS {
        best = best.min(call.ping(number)?);
    }
    Ok(best)
}

/// How many bytes per second reach the port at `target`. Loads grow as long as the next one fits
/// into `budget` and is no larger than the largest request; the last one counts, because the way
/// is warmest then. `timeout` is for a way that is too slow even for the first.
pub(crate) fn bandwidth(
    target: SocketAddr,
    key: &JobKey,
    budget: Duration,
    timeout: Duration,
) -> Result<f64, ProbeFailure> {
    let end = deadline::after(timeout);
    let mut call = ProbeConnection::open(target, key, end)?;
    let all_began = Instant::now();
    let mut length = FIRST_LOAD;
    loop {
        let began = Instant::now();
        call.load(length)?;
        let rate = f64::from(length) / began.elapsed().as_secs_f64().max(f64::EPSILON);
        let left = budget.saturating_sub(all_began.elapsed());
        let next = length.saturating_mul(GROWTH).min(LARGEST);
        if next == length || f64::from(next) > rate * left.as_secs_f64() {
            return Ok(rate);
        }
        length = next;
    }
}

/// An authenticated connection to a port, and the moment by which all is over.
struct ProbeConnection {
    stream: TcpStream,
    session: SecureSession,
    end: Instant,
    identity: u32,
}

impl ProbeConnection {
    fn open(target: SocketAddr, key: &JobKey, end: Instant) -> Result<Self, ProbeFailure> {
        let mut attempt = 1;
        loop {
            match Self::try_open(target, key, end) {
                Err(ProbeFailure::HungUp) if attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    fn try_open(target: SocketAddr, key: &JobKey, end: Instant) -> Result<Self, ProbeFailure> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ProbeFailure::TimedOut);
        }
        let stream = TcpStream::connect_timeout(&target, left)?;
        // Without it a ping would measure how long the kernel collects bytes.
        stream.set_nodelay(true)?;
        let mut timed = Timed::new(&stream, end);
        let mut session = handshake::connect(&mut timed, key, Purpose::Probe)?;
        let mut identity = [0; 4];
        session.over(timed).read_exact(&mut identity)?;
        let identity = u32::from_le_bytes(identity);
        Ok(Self {
            stream,
            session,
            end,
            identity,
        })
    }

    fn ping(&mut self, number: u64) -> Result<Duration, ProbeFailure> {
        let mut timed = self.session.over(Timed::new(&self.stream, self.end));
        let mut request = [PING; 1 + ECHO];
        request[1..].copy_from_slice(&number.to_le_bytes());
        let began = Instant::now();
        timed.write_all(&request)?;
        let mut echo = [0; ECHO];
        timed.read_exact(&mut echo)?;
        let took = began.elapsed();
        if echo == number.to_le_bytes() {
            Ok(took)
        } else {
            Err(ProbeFailure::NotHorovod)
        }
    }

    /// Sends `length` bytes and waits until the port has them all.
    fn load(&mut self, length: u32) -> Result<(), ProbeFailure> {
        let mut timed = self.session.over(Timed::new(&self.stream, self.end));
        let [a, b, c, d] = length.to_le_bytes();
        timed.write_all(&[SWALLOW, a, b, c, d])?;
        let mut left = length as usize;
        let piece = noise(PIECE.min(left));
        while left > 0 {
            let count = left.min(piece.len());
            timed.write_all(&piece[..count])?;
            left -= count;
        }
        let mut acknowledged = [0; 4];
        timed.read_exact(&mut acknowledged)?;
        if u32::from_le_bytes(acknowledged) == length {
            Ok(())
        } else {
            Err(ProbeFailure::NotHorovod)
        }
    }
}

/// Bytes that a tunnel on the way can hardly compress, even if they are sent again and again.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let words = length.div_ceil(size_of::<u64>());
    let mut bytes: Vec<u8> = (0..words).flat_map(|_| next()).collect();
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests;
