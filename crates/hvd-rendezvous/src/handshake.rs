//! How two processes of a job recognise each other on a fresh connection, before anything else is
//! read from it.
//!
//! ```text
//! connector                                             acceptor
//!   hello     "HVDR" | version u8 | purpose u8 | nonce[32]   ->
//!   <-   "HVDR" | version u8 | nonce[32] | proof[32]     answer
//!   proof     proof[32]                                      ->
//!
//! proof = HMAC-SHA256(job key, label | version | purpose | connector's nonce | acceptor's nonce)
//! label = "hvd acceptor proof" or "hvd connector proof"
//! ```
//!
//! - `HAND-1` all lengths are fixed; nothing a stranger sends decides how much is read.
//! - `HAND-2` both nonces are in both proofs, so no recorded conversation can be replayed.
//! - `HAND-3` the labels differ, so no proof can be sent back to the one who made it.
//! - `HAND-4` the purpose is proved too, so a connection cannot be passed on as another kind.
//!
//! An acceptor of another version answers with the first five bytes only, so that the connector
//! can say what is wrong. The caller bounds the time, see [`crate::deadline`]. Nothing after the
//! handshake is encrypted or signed: it keeps strangers and other jobs out, not somebody who can
//! change packets on the way.

use std::io::{Read, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{Error, JobKey, Result};

/// Changes whenever what is said after the handshake changes.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 4] = *b"HVDR";
const NONCE: usize = 32;
const PROOF: usize = 32;
const ACCEPTOR: &[u8] = b"hvd acceptor proof";
const CONNECTOR: &[u8] = b"hvd connector proof";

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
    fn from_code(code: u8) -> Option<Self> {
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
    }
}

/// What both proofs are made over.
struct Transcript {
    purpose: u8,
    connector: [u8; NONCE],
    acceptor: [u8; NONCE],
}

impl Transcript {
    fn mac(&self, key: &JobKey, label: &[u8]) -> Hmac<Sha256> {
        // A key shorter than the hash's block is padded with zeros by definition; padding it here
        // spares the constructor that can fail.
        let mut block = [0; 64];
        block[..JobKey::LENGTH].copy_from_slice(key.bytes());
        let mut mac = Hmac::<Sha256>::new(&block.into());
        for part in [
            label,
            &[VERSION, self.purpose],
            &self.connector,
            &self.acceptor,
        ] {
            mac.update(part);
        }
        mac
    }

    fn prove(&self, key: &JobKey, label: &[u8]) -> [u8; PROOF] {
        self.mac(key, label).finalize().into_bytes().into()
    }

    fn verify(&self, key: &JobKey, label: &[u8], proof: &[u8; PROOF]) -> Result<()> {
        self.mac(key, label)
            .verify_slice(proof)
            .map_err(|_| Error::WrongKey)
    }
}

/// Proves to the acceptor that this process knows `key`, and has it prove the same.
pub fn connect(stream: &mut (impl Read + Write), key: &JobKey, purpose: Purpose) -> Result<()> {
    let connector = nonce()?;
    let mut hello = Vec::with_capacity(6 + NONCE);
    hello.extend(MAGIC);
    hello.extend([VERSION, purpose as u8]);
    hello.extend(connector);
    send(stream, &hello)?;

    let [magic @ .., version] = receive::<5>(stream)?;
    check_magic(magic)?;
    check_version(version)?;
    let acceptor = receive::<NONCE>(stream)?;
    let proof = receive::<PROOF>(stream)?;
    let transcript = Transcript {
        purpose: purpose as u8,
        connector,
        acceptor,
    };
    transcript.verify(key, ACCEPTOR, &proof)?;
    send(stream, &transcript.prove(key, CONNECTOR))
}

/// Has the connector prove that it knows `key`, proves the same, and returns what the connection
/// is for.
pub fn accept(stream: &mut (impl Read + Write), key: &JobKey) -> Result<Purpose> {
    let [magic @ .., version, purpose] = receive::<6>(stream)?;
    check_magic(magic)?;
    if version != VERSION {
        send(stream, &answer_head())?;
        check_version(version)?;
    }
    let connector = receive::<NONCE>(stream)?;
    let transcript = Transcript {
        purpose,
        connector,
        acceptor: nonce()?,
    };
    let mut answer = answer_head().to_vec();
    answer.extend(transcript.acceptor);
    answer.extend(transcript.prove(key, ACCEPTOR));
    send(stream, &answer)?;

    let proof = receive::<PROOF>(stream)?;
    transcript.verify(key, CONNECTOR, &proof)?;
    Purpose::from_code(purpose).ok_or(Error::Malformed("unknown purpose of a connection"))
}

fn answer_head() -> [u8; 5] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, VERSION]
}

fn nonce() -> Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce)?;
    Ok(nonce)
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

fn receive<const LENGTH: usize>(stream: &mut impl Read) -> Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    stream
        .read_exact(&mut bytes)
        .map_err(Error::io("handshake of a new connection"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
