//! What a connection has to prove before it is served.

use std::io::{Read, Write};

use crate::deadline::Timed;
use crate::handshake::{self, HELLO};
use crate::{JobKey, Purpose, Result, SecureSession};

/// A check that every connection has to pass.
pub trait Authenticator<S>: Send + Sync + 'static {
    /// What the check yields for a connection that has passed.
    type Output: Send;

    /// Lets a connection pass that knows the job key; the stream ends by a deadline.
    fn check(&self, stream: &mut Timed<'_, S>) -> Result<(Purpose, Self::Output)>;
}

/// The whole handshake; a connection that has passed is protected by its [`SecureSession`].
#[derive(Debug)]
pub struct Handshake(pub JobKey);

impl<S> Authenticator<S> for Handshake
where
    for<'s> Timed<'s, S>: Read + Write,
{
    type Output = SecureSession;

    fn check(&self, stream: &mut Timed<'_, S>) -> Result<(Purpose, SecureSession)> {
        handshake::accept(stream, &self.0)
    }
}

/// The first message of a connection, which the authenticator has read.
pub type Hello = [u8; HELLO];

/// Only the connector's first message, for a port that passes connections on to another process,
/// with which the connector makes the rest of the handshake.
#[derive(Debug)]
pub struct HelloOnly(pub JobKey);

impl<S> Authenticator<S> for HelloOnly
where
    for<'s> Timed<'s, S>: Read + Write,
{
    type Output = Hello;

    fn check(&self, stream: &mut Timed<'_, S>) -> Result<(Purpose, Hello)> {
        handshake::accept_hello(stream, &self.0)
    }
}
