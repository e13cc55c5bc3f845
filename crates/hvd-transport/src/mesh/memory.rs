//! Step 3 of joining: memory for the ranks of each host that has several.
//!
//! The first rank of a host creates it and hands it to the others; then all ranks of the job
//! exchange whether that worked. A host uses its memory if all of its ranks have it.

use std::collections::HashSet;

use hvd_rendezvous::Store;
use hvd_types::Rank;

use super::fd_passing::{self, HostGroup, MemoryOffer, MemoryServer};
use super::{Bootstrap, TransportKind};
use crate::mixed::HostMemory;
use crate::shm::Capacities;
use crate::{Error, Result};

impl Bootstrap {
    /// The memory of this host if all its ranks have it, else perhaps the reason why not.
    pub(super) fn share_memory(
        &self,
        offer: Option<Result<MemoryOffer>>,
        store: &mut dyn Store,
    ) -> Result<(Option<HostMemory>, Option<String>)> {
        let host_group = self.host_group();
        if self.options().kind == TransportKind::SharedMemory && host_group.has_flags {
            return Err(Error::Bootstrap(self.apart()));
        }
        // Known from the endpoints, so no rank comes to the exchange in vain.
        if self.options().kind == TransportKind::Tcp || !self.has_neighbours() {
            return Ok((None, None));
        }
        match (
            self.hand_over(host_group, offer, store)?,
            self.options().kind,
        ) {
            (Ok(memory), _) => Ok((memory, None)),
            (Err(trouble), TransportKind::SharedMemory) => Err(Error::Bootstrap(trouble)),
            (Err(trouble), _) => Ok((None, Some(format!("using TCP: {trouble}")))),
        }
    }

    /// Where all ranks of this meeting report.
    fn memory_scope(&self) -> String {
        format!("init()/{}/memory", self.endpoints()[0].attempt)
    }

    /// Tells the others, who may wait for this rank's report, that there will be none.
    pub(super) fn leave_memory(&self, error: &Error, store: &mut dyn Store) {
        let failure = self.failure(error);
        let reason = format!("on host `{}` {}", failure.host, failure.reason);
        if let Err(error) = store.leave(&self.memory_scope(), self.rank(), &reason) {
            tracing::info!("the other ranks cannot be told that this one gave up: {error}");
        }
    }

    /// The ranks of this rank's host.
    fn host_group(&self) -> HostGroup {
        let own = &self.endpoints()[self.rank().index()];
        let ranks = (0..self.endpoints().len())
            .filter(|&index| self.endpoints()[index].shares_host_with(own))
            .map(Rank::from_index)
            .collect::<Vec<Rank>>();
        let has_flags = ranks.len() < self.endpoints().len();
        HostGroup { ranks, has_flags }
    }

    /// Whether any two ranks share a host.
    fn has_neighbours(&self) -> bool {
        let mut seen = HashSet::new();
        let mut hosts = self
            .endpoints()
            .iter()
            .map(|endpoint| (&endpoint.hostname, &endpoint.host_identity));
        !hosts.all(|host| seen.insert(host))
    }

    /// Why not all ranks can share memory.
    fn apart(&self) -> String {
        let first = &self.endpoints()[0];
        let is_apart = |endpoint: &&super::Endpoint| !endpoint.shares_host_with(first);
        let other = self.endpoints().iter().find(is_apart).unwrap_or(first);
        let index = self
            .endpoints()
            .iter()
            .position(|endpoint| endpoint == other);
        format!(
            "rank 0 on `{}` and rank {} on `{}` share no memory",
            first.hostname,
            index.unwrap_or_default(),
            other.hostname
        )
    }

    /// Gets the memory, and learns from all ranks whether they did; the outcome is the same on all
    /// ranks of a host. A rank that is alone on its host gets none, and that is no trouble.
    fn hand_over(
        &self,
        host_group: HostGroup,
        offer: Option<Result<MemoryOffer>>,
        store: &mut dyn Store,
    ) -> Result<std::result::Result<Option<HostMemory>, String>> {
        let ranks = host_group.ranks.clone();
        // The offer stands until every rank has reported.
        let (memory, server) = match self.obtain(host_group, offer) {
            Ok((memory, server)) => (Ok(memory), server),
            Err(error) => (Err(error.to_string()), None),
        };
        let report = memory.as_ref().err().map_or("", String::as_str);
        let scope = self.memory_scope();
        let size = self.endpoints().len();
        let reports = store.exchange(&scope, self.rank(), size, report.as_bytes(), self.left())?;
        drop(server);
        let failed = ranks.iter().find(|rank| !reports[rank.index()].is_empty());
        Ok(match failed {
            Some(rank) => Err(format!(
                "rank {rank} has no shared memory: {}",
                String::from_utf8_lossy(&reports[rank.index()])
            )),
            None => memory,
        })
    }

    /// This rank's way to the memory; the first rank of a host creates it.
    fn obtain(
        &self,
        host_group: HostGroup,
        offer: Option<Result<MemoryOffer>>,
    ) -> Result<(Option<HostMemory>, Option<MemoryServer>)> {
        let (key, first) = (&self.options().key, host_group.ranks[0]);
        if host_group.ranks.len() == 1 {
            return Ok((None, None));
        }
        if first != self.rank() {
            let socket = &self.endpoints()[first.index()].socket;
            let memory = fd_passing::fetch(socket, host_group, key, self.end)?;
            return Ok((Some(memory), None));
        }
        let offer = offer.unwrap_or_else(MemoryOffer::open)?;
        let usual = || Capacities::for_ranks(host_group.ranks.len());
        let capacities = self.capacities.unwrap_or_else(usual);
        let server = offer.serve(&host_group, capacities, key)?;
        Ok((Some(server.attach(host_group)?), Some(server)))
    }
}
