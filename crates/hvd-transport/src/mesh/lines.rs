//! Steps 4 and 5 of joining: the connections between ranks, made by the higher rank of each pair.

use std::net::{SocketAddr, TcpStream};

use hvd_rendezvous::deadline::Timed;
use hvd_rendezvous::{Purpose, handshake};
use hvd_types::Rank;

use super::incoming::{Incoming, Key};
use super::{Meeting, dial, hello, network};
use crate::lifeline::Line;
use crate::os::socket;
use crate::tcp::{Bundle, Connection, Lanes};
use crate::{Error, Lifeline, Result};

/// Connections of a data lane inside a host, where one is as fast as the processor.
const CONNECTIONS_WITHIN_HOST: u8 = 1;

/// Connections of a data lane to another host.
const CONNECTIONS_BETWEEN_HOSTS: u8 = 2;

/// What fails if a host cannot be reached.
const DIAL: &str = "connecting";

impl Meeting<'_> {
    /// Step 4: every rank to rank 0.
    pub(super) fn connect_lifelines(&self, incoming: &mut Incoming) -> Result<Lifeline> {
        let streams = if self.rank() == Rank::COORDINATOR {
            let others = self.higher_ranks();
            let keys: Vec<Key> = others
                .iter()
                .map(|&rank| (rank, Purpose::Lifeline, 0))
                .collect();
            let streams = self.accept(&keys, incoming)?;
            others.into_iter().zip(streams).collect()
        } else {
            vec![(
                Rank::COORDINATOR,
                self.reach(Rank::COORDINATOR, Purpose::Lifeline, 0)?,
            )]
        };
        let lines: std::io::Result<Vec<Line>> = streams
            .into_iter()
            .map(|(peer, stream)| Line::new(peer, self.host(peer).to_owned(), stream))
            .collect();
        let lines = lines.map_err(Error::io("preparing a lifeline"))?;
        Lifeline::start(lines, self.options.silence, self.abort.clone())
    }

    /// Step 5: both lanes to every other rank but those in `near`; by rank.
    pub(super) fn connect_lanes(
        &self,
        near: &[Rank],
        incoming: &mut Incoming,
    ) -> Result<Vec<Option<Lanes>>> {
        let is_far = |rank: &Rank| *rank != self.rank() && near.binary_search(rank).is_err();
        let ranks = (0..self.cards.len()).map(Rank::from_index);
        let far: Vec<Rank> = ranks.filter(is_far).collect();
        let keys: Vec<Key> = far.iter().flat_map(|&peer| self.keys(peer)).collect();
        let (lower, higher) = keys.split_at(keys.partition_point(|key| key.0 < self.rank()));
        // The nearest first, so that not all ranks begin with rank 0.
        let nearest: Vec<Key> = lower.iter().rev().copied().collect();
        let mut streams = dial::all(&nearest, |&(peer, purpose, number)| {
            self.reach(peer, purpose, number)
        })?;
        streams.reverse();
        streams.extend(self.accept(higher, incoming)?);
        let mut peers: Vec<Option<Lanes>> = Vec::new();
        peers.resize_with(self.cards.len(), || None);
        let mut streams = streams.into_iter();
        for peer in far {
            let strands = self.strands(peer).into();
            let control = self.bundle(streams.by_ref().take(1))?;
            let data = self.bundle(streams.by_ref().take(strands))?;
            peers[peer.index()] = Some([control, data]);
        }
        Ok(peers)
    }

    /// All connections with a rank, those of the control lane first.
    fn keys(&self, peer: Rank) -> impl Iterator<Item = Key> + use<> {
        let data = (0..self.strands(peer)).map(move |number| (peer, Purpose::Data, number));
        std::iter::once((peer, Purpose::Control, 0)).chain(data)
    }

    /// How many connections carry the data lane to a rank; the same seen from there.
    fn strands(&self, peer: Rank) -> u8 {
        let is_here = self.cards[peer.index()].is_beside(&self.cards[self.rank().index()]);
        self.options.tcp.connections.unwrap_or(if is_here {
            CONNECTIONS_WITHIN_HOST
        } else {
            CONNECTIONS_BETWEEN_HOSTS
        })
    }

    fn bundle(&self, streams: impl Iterator<Item = TcpStream>) -> Result<Bundle> {
        let congestion = self.options.tcp.congestion.as_deref();
        let strands: Result<Vec<Connection>> = streams
            .map(|stream| {
                socket::control_congestion(&stream, congestion).map_err(|source| {
                    Error::Congestion {
                        algorithm: congestion.unwrap_or_default().to_owned(),
                        source,
                    }
                })?;
                Connection::new(stream).map_err(Error::io("preparing a connection"))
            })
            .collect();
        Ok(Bundle::new(strands?, self.stripe))
    }

    fn higher_ranks(&self) -> Vec<Rank> {
        (self.rank().index() + 1..self.cards.len())
            .map(Rank::from_index)
            .collect()
    }

    fn host(&self, rank: Rank) -> &str {
        &self.cards[rank.index()].hostname
    }

    fn accept(&self, wanted: &[Key], incoming: &mut Incoming) -> Result<Vec<TcpStream>> {
        incoming.take(wanted, self.end)?.map_err(|missing| {
            let seconds = self.options.timeout.as_secs();
            let names: Vec<String> = missing
                .iter()
                .map(|&rank| format!("rank {rank} on host `{}`", self.host(rank)))
                .collect();
            let (address, own) = (incoming.address(), &self.options.placement);
            let place = if address.ip().is_unspecified() {
                format!("port {} of host `{}`", address.port(), own.hostname)
            } else {
                address.to_string()
            };
            let strangers = missing.iter().map(|&rank| self.host(rank));
            let advice = strangers
                .map(|host| network::advice(self.options, host))
                .find(|advice| !advice.is_empty());
            Error::Bootstrap(format!(
                "{} did not connect to rank {} at {place} within {seconds} s{}",
                names.join(", "),
                own.rank,
                advice.unwrap_or_default()
            ))
        })
    }

    /// Connects to a lower rank.
    fn reach(&self, peer: Rank, purpose: Purpose, number: u8) -> Result<TcpStream> {
        self.abort.check()?;
        let address = network::address_of(self.options, peer, &self.cards[peer.index()])?;
        self.try_reach(address, purpose, number).map_err(|error| {
            let host = self.host(peer);
            let advice = match error {
                Error::Io { doing: DIAL, .. } => network::advice(self.options, host),
                _ => String::new(),
            };
            let text =
                format!("cannot reach rank {peer} on host `{host}` at {address}: {error}{advice}");
            // A failure that is known by now says more than its consequence.
            self.abort.check().err().unwrap_or(Error::Bootstrap(text))
        })
    }

    fn try_reach(&self, address: SocketAddr, purpose: Purpose, number: u8) -> Result<TcpStream> {
        let doing = "preparing the connection";
        let left = self.left().max(std::time::Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&address, left).map_err(Error::io(DIAL))?;
        stream.set_nodelay(true).map_err(Error::io(doing))?;
        let mut timed = Timed::new(&stream, self.end);
        handshake::connect(&mut timed, &self.options.key, purpose)?;
        hello::say(&mut timed, self.rank(), self.options.generation, number)?;
        stream.set_read_timeout(None).map_err(Error::io(doing))?;
        stream.set_write_timeout(None).map_err(Error::io(doing))?;
        Ok(stream)
    }
}
