//! Steps 4 and 5 of joining: the connections between ranks, made by the higher rank of each pair.

use std::net::{SocketAddr, TcpStream};

use hvd_rendezvous::deadline::Timed;
use hvd_rendezvous::{Purpose, handshake};
use hvd_types::Rank;

use super::incoming::Incoming;
use super::{Meeting, hello, network};
use crate::lifeline::Line;
use crate::tcp::Connection;
use crate::{Error, Lifeline, Result};

/// What fails if a host cannot be reached.
const DIAL: &str = "connecting";

impl Meeting<'_> {
    /// Step 4: every rank to rank 0.
    pub(super) fn connect_lifelines(&self, incoming: &mut Incoming) -> Result<Lifeline> {
        let streams = if self.rank() == Rank::COORDINATOR {
            let others = self.higher_ranks();
            let streams = self.accept(&others, Purpose::Lifeline, incoming)?;
            others.into_iter().zip(streams).collect()
        } else {
            vec![(
                Rank::COORDINATOR,
                self.reach(Rank::COORDINATOR, Purpose::Lifeline)?,
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
    ) -> Result<Vec<Option<[Connection; 2]>>> {
        let is_far = |rank: &Rank| *rank != self.rank() && !near.contains(rank);
        let ranks = (0..self.cards.len()).map(Rank::from_index);
        let far: Vec<Rank> = ranks.filter(is_far).collect();
        let (lower, higher) = far.split_at(far.partition_point(|&rank| rank < self.rank()));
        let mut lanes: Vec<Vec<TcpStream>> = Vec::new();
        for purpose in [Purpose::Control, Purpose::Data] {
            let mut lane = lower
                .iter()
                .map(|&peer| self.reach(peer, purpose))
                .collect::<Result<Vec<TcpStream>>>()?;
            lane.extend(self.accept(higher, purpose, incoming)?);
            lanes.push(lane);
        }
        let doing = Error::io("preparing a connection");
        let [control, data] = <[_; 2]>::try_from(lanes).unwrap_or_default();
        let pairs: std::io::Result<Vec<[Connection; 2]>> = control
            .into_iter()
            .zip(data)
            .map(|(control, data)| Ok([Connection::new(control)?, Connection::new(data)?]))
            .collect();
        let mut peers: Vec<Option<[Connection; 2]>> = Vec::new();
        peers.resize_with(self.cards.len(), || None);
        for (rank, pair) in far.into_iter().zip(pairs.map_err(doing)?) {
            peers[rank.index()] = Some(pair);
        }
        Ok(peers)
    }

    fn higher_ranks(&self) -> Vec<Rank> {
        (self.rank().index() + 1..self.cards.len())
            .map(Rank::from_index)
            .collect()
    }

    fn host(&self, rank: Rank) -> &str {
        &self.cards[rank.index()].hostname
    }

    fn accept(
        &self,
        ranks: &[Rank],
        purpose: Purpose,
        incoming: &mut Incoming,
    ) -> Result<Vec<TcpStream>> {
        incoming.take(ranks, purpose, self.end)?.map_err(|missing| {
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
    fn reach(&self, peer: Rank, purpose: Purpose) -> Result<TcpStream> {
        self.abort.check()?;
        let address = network::address_of(self.options, peer, &self.cards[peer.index()])?;
        self.try_reach(address, purpose).map_err(|error| {
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

    fn try_reach(&self, address: SocketAddr, purpose: Purpose) -> Result<TcpStream> {
        let doing = "preparing the connection";
        let left = self.left().max(std::time::Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&address, left).map_err(Error::io(DIAL))?;
        stream.set_nodelay(true).map_err(Error::io(doing))?;
        let mut timed = Timed::new(&stream, self.end);
        handshake::connect(&mut timed, &self.options.key, purpose)?;
        hello::say(&mut timed, self.rank(), self.options.generation)?;
        stream.set_read_timeout(None).map_err(Error::io(doing))?;
        stream.set_write_timeout(None).map_err(Error::io(doing))?;
        Ok(stream)
    }
}
