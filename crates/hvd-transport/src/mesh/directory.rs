//! The endpoints of all ranks of a job, and how this rank connects to one of them.
//!
//! Shared by joining and by the threads that connect lanes later; nothing in it changes.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hvd_rendezvous::deadline::Timed;
use hvd_rendezvous::{Purpose, handshake};
use hvd_types::Rank;

use super::endpoint::Endpoint;
use super::{Encryption, MeshOptions, hello, network};
use crate::lifeline::LifelineConnection;
use crate::os::socket;
use crate::secure_connection::SecureConnection;
use crate::tcp::{Bundle, Connection};
use crate::{Abort, Error, Failure, Lane, Result};

/// Connections of a data lane inside a host, where one is as fast as the processor.
const CONNECTIONS_WITHIN_HOST: u8 = 1;

/// Connections of a data lane to another host.
const CONNECTIONS_BETWEEN_HOSTS: u8 = 2;

/// What fails if a host cannot be reached.
const DIAL: &str = "connecting";

/// The endpoints of all ranks, and this rank's options.
#[derive(Debug)]
pub(super) struct PeerDirectory {
    pub(super) options: MeshOptions,
    /// By rank.
    pub(super) endpoints: Vec<Endpoint>,
    /// Bytes that go over one connection before the next is used.
    pub(super) stripe: usize,
    pub(super) abort: Abort,
}

impl PeerDirectory {
    pub(super) fn rank(&self) -> Rank {
        self.options.placement.rank
    }

    pub(super) fn host(&self, rank: Rank) -> &str {
        &self.endpoints[rank.index()].hostname
    }

    /// How many connections carry a lane to a rank; the same seen from there.
    pub(super) fn strands(&self, peer: Rank, lane: Lane) -> u8 {
        if lane == Lane::Control {
            return 1;
        }
        let is_here =
            self.endpoints[peer.index()].shares_host_with(&self.endpoints[self.rank().index()]);
        self.options.tcp.connections.unwrap_or(if is_here {
            CONNECTIONS_WITHIN_HOST
        } else {
            CONNECTIONS_BETWEEN_HOSTS
        })
    }

    /// A lane over `streams`, which are in the order of their numbers.
    pub(super) fn bundle(&self, lane: Lane, streams: Vec<SecureConnection>) -> Result<Bundle> {
        let congestion = self.options.tcp.congestion.as_deref();
        let strands: Result<Vec<Connection>> = streams
            .into_iter()
            .map(|stream| {
                socket::control_congestion(&stream.stream, congestion).map_err(|source| {
                    Error::Congestion {
                        algorithm: congestion.unwrap_or_default().to_owned(),
                        source,
                    }
                })?;
                let connection = match (lane, self.options.tcp.encryption) {
                    (Lane::Control, _) => Connection::sealed(stream, false),
                    (Lane::Data, Encryption::All) => Connection::sealed(stream, true),
                    (Lane::Data, Encryption::Control) => Connection::plain(stream.stream),
                };
                connection.map_err(Error::io("preparing a connection"))
            })
            .collect();
        Ok(Bundle::new(strands?, self.stripe))
    }

    /// Connects to another rank; none if that rank connects the lane itself.
    pub(super) fn reach(
        &self,
        peer: Rank,
        purpose: Purpose,
        number: u8,
        end: Instant,
    ) -> Result<Option<SecureConnection>> {
        self.abort.check()?;
        let address = network::address_of(&self.options, peer, &self.endpoints[peer.index()])?;
        self.try_reach(peer, address, purpose, number, end)
            .map_err(|error| {
                let host = self.host(peer);
                let advice = match error {
                    Error::Io { doing: DIAL, .. } => network::advice(&self.options, host),
                    _ => String::new(),
                };
                let text = format!(
                    "cannot reach rank {peer} on host `{host}` at {address}: {error}{advice}"
                );
                self.abort.explain(Error::Bootstrap(text))
            })
    }

    /// Tells another rank of a failure, on a lifeline that carries nothing else. Also after an
    /// abort: that is when it is needed.
    pub(super) fn report_to(&self, peer: Rank, failure: &Failure, end: Instant) -> Result<()> {
        let address = network::address_of(&self.options, peer, &self.endpoints[peer.index()])?;
        let stream = self.try_reach(peer, address, Purpose::Lifeline, 0, end)?;
        stream.map_or(Ok(()), |stream| {
            LifelineConnection::new(peer, self.host(peer).to_owned(), stream)
                .map(|mut connection| connection.send_final(failure, end))
                .map_err(Error::io("reporting a failure"))
        })
    }

    fn try_reach(
        &self,
        peer: Rank,
        address: SocketAddr,
        purpose: Purpose,
        number: u8,
        end: Instant,
    ) -> Result<Option<SecureConnection>> {
        let doing = "preparing the connection";
        let left = end.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&address, left).map_err(Error::io(DIAL))?;
        stream.set_nodelay(true).map_err(Error::io(doing))?;
        let mut timed = Timed::new(&stream, end);
        let mut session = handshake::connect(&mut timed, &self.options.key, purpose)?;
        let (rank, attempt) = (self.rank(), self.endpoints[peer.index()].attempt);
        let is_welcome = hello::send(&mut session.over(timed), rank, attempt, number)?;
        stream.set_read_timeout(None).map_err(Error::io(doing))?;
        stream.set_write_timeout(None).map_err(Error::io(doing))?;
        Ok(is_welcome.then_some(SecureConnection { stream, session }))
    }
}
