//! Bytes between ranks.
//!
//! [`Transport`] is the one seam: ordered, reliable bytes between every pair of ranks on two
//! lanes, [`Lane::Control`] for the negotiation and [`Lane::Data`] for tensors. Its kinds are
//! [`mem`] (ranks as threads, for tests), shared memory, TCP, and shared memory inside each of
//! several hosts with TCP between them; the
//! data between hosts may go through a [`DataFabric`] instead. [`join`] connects the ranks of a job with each other and
//! picks one. Every wait ends by progress, by a deadline or by [`Abort`],
//! which the [`Lifeline`] raises when any rank dies.
//!
//! Must not know: tensors, data types, operations, Python.

#![deny(unsafe_code)]

mod abort;
mod debug_responder;
mod error;
mod fabric;
mod init_attempt;
mod job;
mod lifeline;
pub mod mem;
mod membership;
mod mesh;
mod mixed;
mod os;
mod rank_context;
mod secure_connection;
mod shm;
mod spin;
mod tcp;
pub mod testing;
mod transport;

pub use abort::{Abort, Failure, Waker};
pub use debug_responder::DebugResponder;
pub use error::{Error, Result};
pub use fabric::{
    AfterLook, DataFabric, Exchanged, FabricError, FabricSource, MessageExchange, MessagePair,
    PART_ALIGNMENT, TakePart,
};
pub use hvd_rendezvous::objects::ObjectSeal;
pub use hvd_rendezvous::{Error as StoreError, Store};
pub use init_attempt::InitAttempt;
pub use job::{accuse, connect, open_store};
pub use lifeline::{Lifeline, MAX_ANSWER_BYTES, SnapshotSource, StatusQuery};
pub use membership::Membership;
pub use mesh::{
    Encryption, Mesh, MeshOptions, RankAddresses, TcpOptions, TransportKind, join, join_until,
};
pub use shm::{Inputs, SharedSlots};
pub use transport::{ConnectionCount, Interest, Lane, Transport, Wake};
