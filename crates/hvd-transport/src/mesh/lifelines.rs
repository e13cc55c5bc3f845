//! Step 4 of joining: every rank's lifeline to rank 0.

use std::time::Duration;

use hvd_rendezvous::{Purpose, deadline};
use hvd_types::Rank;

use super::incoming::{ConnectionKey, Incoming};
use super::{Bootstrap, network};
use crate::lifeline::LifelineConnection;
use crate::secure_connection::SecureConnection;
use crate::{Error, Lifeline, Result};

/// How long this rank's end may be held up by a rank 0 that does not answer.
const FINAL_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

impl Bootstrap {
    pub(super) fn connect_lifelines(&self, incoming: &mut Incoming) -> Result<Lifeline> {
        let streams: Vec<(Rank, SecureConnection)> = if self.rank() == Rank::COORDINATOR {
            let others: Vec<Rank> = (1..self.directory.endpoints.len())
                .map(Rank::from_index)
                .collect();
            let keys: Vec<ConnectionKey> = others
                .iter()
                .map(|&rank| (rank, Purpose::Lifeline, 0))
                .collect();
            let streams = self.accept(&keys, incoming)?;
            others.into_iter().zip(streams).collect()
        } else {
            let (first, purpose) = (Rank::COORDINATOR, Purpose::Lifeline);
            let stream = self.directory.reach(first, purpose, 0, self.end)?;
            stream.into_iter().map(|stream| (first, stream)).collect()
        };
        let connect = |(peer, stream)| {
            LifelineConnection::new(peer, self.directory.host(peer).to_owned(), stream)
        };
        let connections: std::io::Result<Vec<LifelineConnection>> =
            streams.into_iter().map(connect).collect();
        let connections = connections.map_err(Error::io("preparing a lifeline"))?;
        let heartbeat_timeout = self.directory.options.heartbeat_timeout;
        Lifeline::start(connections, heartbeat_timeout, self.directory.abort.clone())
    }

    /// Tells rank 0, who waits for this rank's lifeline, that this rank has failed: by a lifeline
    /// that says so and ends. Nothing more can be done if that fails, too.
    pub(super) fn report_to_coordinator(&self, error: &Error) {
        if self.rank() == Rank::COORDINATOR {
            return;
        }
        let end = self.end.min(deadline::after(FINAL_REPORT_TIMEOUT));
        let reported = self
            .directory
            .report_to(Rank::COORDINATOR, &self.failure(error), end);
        if let Err(error) = reported {
            tracing::info!("rank 0 cannot be told that this rank has failed: {error}");
        }
    }

    fn accept(
        &self,
        wanted: &[ConnectionKey],
        incoming: &mut Incoming,
    ) -> Result<Vec<SecureConnection>> {
        let options = &self.directory.options;
        incoming.take(wanted, self.end)?.map_err(|missing| {
            let seconds = options.timeout.as_secs();
            let host = |rank: Rank| self.directory.host(rank);
            let names: Vec<String> = missing
                .iter()
                .map(|&rank| format!("rank {rank} on host `{}`", host(rank)))
                .collect();
            let (address, own) = (incoming.address(), &options.placement);
            let listener = if address.ip().is_unspecified() {
                format!("port {} of host `{}`", address.port(), own.hostname)
            } else {
                address.to_string()
            };
            let advice = missing
                .iter()
                .map(|&rank| network::advice(options, host(rank)))
                .find(|advice| !advice.is_empty());
            Error::Bootstrap(format!(
                "{} did not connect to rank {} at {listener} within {seconds} s{}",
                names.join(", "),
                own.rank,
                advice.unwrap_or_default()
            ))
        })
    }
}
