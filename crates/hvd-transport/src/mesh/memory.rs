//! Step 3 of joining: memory for the ranks of each host that has several.
//!
//! The first rank of a host creates it and hands it to the others; then all ranks of the job
//! exchange whether that worked. A host uses its memory if all of its ranks have it.

use std::collections::HashSet;

use hvd_rendezvous::Store;
use hvd_types::Rank;

use super::handover::{self, Household, Offer, Serving};
use super::{Meeting, TransportKind};
use crate::mixed::HostMemory;
use crate::shm::Capacities;
use crate::{Error, Result};

impl Meeting {
    /// The memory of this host if all its ranks have it, else perhaps a note why not.
    pub(super) fn share_memory(
        &self,
        offer: Option<Result<Offer>>,
        store: &mut dyn Store,
    ) -> Result<(Option<HostMemory>, Option<String>)> {
        let household = self.household();
        if self.options().kind == TransportKind::SharedMemory && household.has_flags {
            return Err(Error::Bootstrap(self.apart()));
        }
        // Known from the cards, so no rank comes to the exchange in vain.
        if self.options().kind == TransportKind::Tcp || !self.has_neighbours() {
            return Ok((None, None));
        }
        match (
            self.hand_over(household, offer, store)?,
            self.options().kind,
        ) {
            (Ok(memory), _) => Ok((memory, None)),
            (Err(trouble), TransportKind::SharedMemory) => Err(Error::Bootstrap(trouble)),
            (Err(trouble), _) => Ok((None, Some(format!("using TCP: {trouble}")))),
        }
    }

    /// Where all ranks of this meeting report.
    fn memory_scope(&self) -> String {
        format!("init()/{}/memory", self.cards()[0].attempt)
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
    fn household(&self) -> Household {
        let own = &self.cards()[self.rank().index()];
        let ranks = (0..self.cards().len())
            .filter(|&index| self.cards()[index].is_beside(own))
            .map(Rank::from_index)
            .collect::<Vec<Rank>>();
        let has_flags = ranks.len() < self.cards().len();
        Household { ranks, has_flags }
    }

    /// Whether any two ranks share a host.
    fn has_neighbours(&self) -> bool {
        let mut places = HashSet::new();
        let mut place = self
            .cards()
            .iter()
            .map(|card| (&card.hostname, &card.host_identity));
        !place.all(|place| places.insert(place))
    }

    /// Why not all ranks can share memory.
    fn apart(&self) -> String {
        let first = &self.cards()[0];
        let is_apart = |card: &&super::Card| !card.is_beside(first);
        let other = self.cards().iter().find(is_apart).unwrap_or(first);
        let index = self.cards().iter().position(|card| card == other);
        format!(
            "rank 0 on `{}` and rank {} on `{}` share no memory",
            first.hostname,
            index.unwrap_or_default(),
            other.hostname
        )
    }

    /// Gets the memory, and hears from all ranks whether they did; the outcome is the same on all
    /// ranks of a host. A rank that is alone on its host gets none, and that is no trouble.
    fn hand_over(
        &self,
        household: Household,
        offer: Option<Result<Offer>>,
        store: &mut dyn Store,
    ) -> Result<std::result::Result<Option<HostMemory>, String>> {
        let ranks = household.ranks.clone();
        // The offer stands until everybody has reported.
        let (memory, serving) = match self.obtain(household, offer) {
            Ok((memory, serving)) => (Ok(memory), serving),
            Err(error) => (Err(error.to_string()), None),
        };
        let report = memory.as_ref().err().map_or("", String::as_str);
        let scope = self.memory_scope();
        let size = self.cards().len();
        let reports = store.exchange(&scope, self.rank(), size, report.as_bytes(), self.left())?;
        drop(serving);
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
        household: Household,
        offer: Option<Result<Offer>>,
    ) -> Result<(Option<HostMemory>, Option<Serving>)> {
        let (key, first) = (&self.options().key, household.ranks[0]);
        if household.ranks.len() == 1 {
            return Ok((None, None));
        }
        if first != self.rank() {
            let socket = &self.cards()[first.index()].socket;
            let memory = handover::fetch(socket, household, key, self.end)?;
            return Ok((Some(memory), None));
        }
        let offer = offer.unwrap_or_else(Offer::open)?;
        let usual = || Capacities::for_ranks(household.ranks.len());
        let capacities = self.capacities.unwrap_or_else(usual);
        let serving = offer.serve(&household, capacities, key)?;
        Ok((Some(serving.attach(household)?), Some(serving)))
    }
}
