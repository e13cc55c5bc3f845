//! How two processes of a job recognise each other on a fresh connection, before anything else is
//! read from it, and agree on keys for everything that follows.
//!
//! It is the Noise protocol `Noise_NNpsk0_25519_AESGCM_SHA256` with the job key as its pre-shared
//! key, and one more message that confirms the keys:
//!
//! ```text
//! connector                                             acceptor
//!   hello     "HVDR" | version u8 | purpose u8 | ephemeral key[32] | tag[16]   ->
//!   <-        "HVDR" | version u8 | ephemeral key[32] | tag[16]            answer
//!   confirm   an empty record of the session                                   ->
//! ```
//!
//! - `HAND-1` all lengths are fixed; nothing a stranger sends decides how much is read.
//! - `HAND-2` both ephemeral keys make the session's keys, and the acceptor believes nothing before
//!   the first record has opened, so no recorded conversation can be replayed.
//! - `HAND-3` no message of one side is a message of the other, so none can be sent back to the one
//!   who made it.
//! - `HAND-4` version and purpose are part of what is proved, so a connection cannot be passed on
//!   as another kind.
//! - `HAND-5` a party that learns the job key later cannot read what was recorded before: the
//!   session's keys come from the ephemeral ones, which are never stored.
//!
//! An acceptor of another version answers with the first five bytes only, and so does, with 255 as
//! its version, one whose key is another, so that the connector can say what is wrong. The caller
//! bounds the time, see [`crate::deadline`]. What follows is protected by the [`SecureSession`].

use std::io::{self, Read, Write};

use snow::{Builder, HandshakeState};

use crate::noise::Primitives;
use crate::{Error, JobKey, Result, SecureSession};

/// Changes whenever the handshake, or what is said after it, changes.
pub const VERSION: u8 = 2;

const MAGIC: [u8; 4] = *b"HVDR";
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Stands for a version in the answer to a hello that does not prove the key.
const REFUSED: u8 = 0xff;

/// An ephemeral key and the tag that proves the job key.
const PROOF: usize = 32 + 16;

/// Bytes of the connector's first message.
pub const HELLO: usize = 6 + PROOF;

/// Bytes of an empty record: its length and its tag.
const CONFIRMATION: usize = 4 + 16;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Requests to the key-value store.
    Store = 1,
    /// News of deaths and goodbyes between ranks.
    Lifeline = 2,
    /// The control lane between two ranks.
    Control = 3,
    /// The data lane between two ranks.
    Data = 4,
    /// Handing over the shared memory of a host.
    Segment = 5,
    /// Between the launcher and the agent of another host.
    Agent = 6,
    /// Finding out which hosts reach each other, and at which addresses.
    Probe = 7,
}

impl Purpose {
    fn from_code(code: u8) -> Result<Self> {
        [
            Self::Store,
            Self::Lifeline,
            Self::Control,
            Self::Data,
            Self::Segment,
            Self::Agent,
            Self::Probe,
        ]
        .into_iter()
        .find(|&purpose| purpose as u8 == code)
        .ok_or(Error::Malformed("unknown purpose of a connection"))
    }
}

/// The beginning of a hello; both sides prove it (`HAND-4`).
fn head(purpose: u8) -> [u8; 6] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, VERSION, purpose]
}

/// The beginning of an answer.
fn answer_head(version: u8) -> [u8; 5] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, version]
}

fn builder<'a>(key: &'a JobKey, head: &'a [u8; 6]) -> Result<Builder<'a>> {
    let pattern = PATTERN.parse().map_err(Error::Noise)?;
    Builder::with_resolver(pattern, Box::new(Primitives))
        .prologue(head)
        .and_then(|builder| builder.psk(0, key.bytes()))
        .map_err(Error::Noise)
}

/// Proves to the acceptor that this process knows `key`, has it prove the same, and returns what
/// protects the connection from then on.
pub fn connect(
    stream: &mut (impl Read + Write),
    key: &JobKey,
    purpose: Purpose,
) -> Result<SecureSession> {
    let head = head(purpose as u8);
    let mut noise = builder(key, &head)?.build_initiator()?;
    let mut hello = [0; HELLO];
    hello[..6].copy_from_slice(&head);
    noise.write_message(&[], &mut hello[6..])?;
    send(stream, &hello)?;

    let [magic @ .., version] = receive::<5>(stream)?;
    check_magic(magic)?;
    if version == REFUSED {
        return Err(Error::WrongKey);
    }
    check_version(version)?;
    let proof = receive::<PROOF>(stream)?;
    check_proof(&mut noise, &proof)?;
    let (sending, receiving) = noise.dangerously_get_raw_split();
    let mut session = SecureSession::new(&sending, &receiving)?;
    let mut confirmation = Vec::with_capacity(CONFIRMATION);
    session.sealer.seal(&[], &mut confirmation)?;
    send(stream, &confirmation)?;
    Ok(session)
}

/// Has the connector prove that it knows `key`, proves the same, and returns what the connection
/// is for and what protects it from then on.
pub fn accept(stream: &mut (impl Read + Write), key: &JobKey) -> Result<(Purpose, SecureSession)> {
    let (purpose, _, mut noise) = receive_hello(stream, key)?;
    let mut answer = [0; 5 + PROOF];
    answer[..5].copy_from_slice(&answer_head(VERSION));
    noise.write_message(&[], &mut answer[5..])?;
    send(stream, &answer)?;

    let (receiving, sending) = noise.dangerously_get_raw_split();
    let mut session = SecureSession::new(&sending, &receiving)?;
    let confirmation = receive::<CONFIRMATION>(stream)?;
    let room = session.opener.room(CONFIRMATION);
    room[..CONFIRMATION].copy_from_slice(&confirmation);
    session.opener.filled(CONFIRMATION);
    match session.opener.take(&mut [0]) {
        Ok(0) if session.opener.missing()? > 0 => Ok((purpose, session)),
        _ => Err(Error::WrongKey),
    }
}

/// Has the connector prove that it knows `key` as far as its first message does, and returns what
/// the connection is for, and the message. It may be a copy of one that was sent before: only the
/// rest of the handshake shows.
pub fn accept_hello(
    stream: &mut (impl Read + Write),
    key: &JobKey,
) -> Result<(Purpose, [u8; HELLO])> {
    let (purpose, hello, _) = receive_hello(stream, key)?;
    Ok((purpose, hello))
}

/// Reads the first message of a connector. One of another version gets ours, and one that does
/// not know the key gets a refusal.
fn receive_hello(
    stream: &mut (impl Read + Write),
    key: &JobKey,
) -> Result<(Purpose, [u8; HELLO], HandshakeState)> {
    let mut hello = [0; HELLO];
    let head @ [magic @ .., version, _] = receive::<6>(stream)?;
    check_magic(magic)?;
    if version != VERSION {
        send(stream, &answer_head(VERSION))?;
        check_version(version)?;
    }
    hello[..6].copy_from_slice(&head);
    hello[6..].copy_from_slice(&receive::<PROOF>(stream)?);
    let opened = open_hello(&hello, key);
    if matches!(opened, Err(Error::WrongKey)) {
        send(stream, &answer_head(REFUSED))?;
    }
    let (purpose, noise) = opened?;
    Ok((purpose, hello, noise))
}

fn open_hello(hello: &[u8; HELLO], key: &JobKey) -> Result<(Purpose, HandshakeState)> {
    let head = head(hello[5]);
    let mut noise = builder(key, &head)?.build_responder()?;
    check_proof(&mut noise, &hello[6..])?;
    Ok((Purpose::from_code(hello[5])?, noise))
}

fn check_proof(noise: &mut HandshakeState, proof: &[u8]) -> Result<()> {
    let read = noise.read_message(proof, &mut []);
    read.map(drop).map_err(|_| Error::WrongKey)
}

fn check_magic(magic: [u8; 4]) -> Result<()> {
    if magic == MAGIC {
        Ok(())
    } else {
        Err(Error::NotHorovod)
    }
}

fn check_version(theirs: u8) -> Result<()> {
    if theirs == VERSION {
        Ok(())
    } else {
        Err(Error::Version {
            ours: VERSION,
            theirs,
        })
    }
}

fn send(stream: &mut impl Write, bytes: &[u8]) -> Result<()> {
    stream
        .write_all(bytes)
        .map_err(Error::io("handshake of a new connection"))
}

/// Reads a message. A connection that ends before its first byte is an `UnexpectedEof`, one that
/// ends in the middle is a `ConnectionAborted`: only the latter was an attempt.
fn receive<const LENGTH: usize>(stream: &mut impl Read) -> Result<[u8; LENGTH]> {
    let (mut bytes, mut first) = ([0; LENGTH], [0; 1]);
    stream
        .read_exact(&mut first)
        .and_then(|()| {
            bytes[0] = first[0];
            let rest = stream.read_exact(&mut bytes[1..]);
            rest.map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => io::ErrorKind::ConnectionAborted.into(),
                _ => error,
            })
        })
        .map_err(Error::io("handshake of a new connection"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
