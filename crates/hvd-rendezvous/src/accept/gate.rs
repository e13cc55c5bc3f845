//! What a connection has to show before it is served.

use std::io::{Read, Write};

use crate::deadline::Timed;
use crate::handshake::{self, HELLO};
use crate::{JobKey, Purpose, Result, Session};

/// A check that every connection has to pass.
pub trait Gate<S>: Send + Sync + 'static {
    /// What a connection gets that has passed.
    type Pass: Send;

    /// Lets a connection pass that knows the job key; the stream ends by a deadline.
    fn check(&self, stream: &mut Timed<'_, S>) -> Result<(Purpose, Self::Pass)>;
}

/// The whole handshake; a connection that has passed is protected by its [`Session`].
#[derive(Debug)]
pub struct Handshake(pub JobKey);

impl<S> Gate<S> for Handshake
where
    for<'s> Timed<'s, S>: Read + Write,
{
    type Pass = Session;

    fn check(&self, stream: &mut Timed<'_, S>) -> Result<(Purpose, Session)> {
        handshake::accept(stream, &self.0)
    }
}

/// The first message of a connection, which the gate has read.
pub type Hello = [u8; HELLO];

/// Only the connector's first message, for a port that passes connections on to another process,
/// with which the connector makes the rest of the handshake.
#[derive(Debug)]
pub struct HelloOnly(pub JobKey);

impl<S> Gate<S> for HelloOnly
where
    for<'s> Timed<'s, S>: Read + Write,
{
    type Pass = Hello;

    fn check(&self, stream: &mut Timed<'_, S>) -> Result<(Purpose, Hello)> {
        handshake::accept_hello(stream, &self.0)
    }
}
