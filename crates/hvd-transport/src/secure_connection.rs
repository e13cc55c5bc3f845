//! A connection to another rank, with what protects it: as it comes from the mesh, before it is
//! known what it is used for.

use std::net::TcpStream;

use hvd_rendezvous::SecureSession;

/// An authenticated connection.
#[derive(Debug)]
pub(crate) struct SecureConnection {
    pub(crate) stream: TcpStream,
    pub(crate) session: SecureSession,
}
