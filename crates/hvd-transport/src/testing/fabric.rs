//! For tests only: a [`DataFabric`] between threads that, like MPI, moves bytes only while it is
//! called. What a rank has taken for a peer stays with it until a later call finds room in the
//! peer's queue.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hvd_types::Rank;

use crate::{
    AfterLook, DataFabric, Exchanged, FabricError, FabricSource, MessagePair, PART_ALIGNMENT,
    TakePart,
};

/// Bytes that have arrived, by sender and receiver.
type Arrived = HashMap<(Rank, Rank), VecDeque<u8>>;

/// Messages that have arrived, likewise.
type ArrivedMessages = HashMap<(Rank, Rank), VecDeque<Vec<u8>>>;

/// What all ranks share.
#[derive(Debug, Clone)]
pub(super) struct MemoryFabrics {
    arrived: Arc<Mutex<Arrived>>,
    messages: Arc<Mutex<ArrivedMessages>>,
    /// How many bytes a queue holds.
    capacity: usize,
}

impl MemoryFabrics {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            arrived: Arc::default(),
            messages: Arc::default(),
            capacity,
        }
    }

    /// Where one rank gets its fabric from.
    pub(super) fn source(&self, rank: Rank) -> Arc<dyn FabricSource> {
        Arc::new(Source {
            fabrics: self.clone(),
            rank,
        })
    }

    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn messages(&self) -> MutexGuard<'_, ArrivedMessages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Source {
    fabrics: MemoryFabrics,
    rank: Rank,
}

impl FabricSource for Source {
    fn open(&self, _meeting: u64) -> Result<Box<dyn DataFabric>, FabricError> {
        Ok(Box::new(MemoryFabric {
            fabrics: self.fabrics.clone(),
            rank: self.rank,
            held: HashMap::new(),
        }))
    }
}

/// One rank's end.
#[derive(Debug)]
struct MemoryFabric {
    fabrics: MemoryFabrics,
    rank: Rank,
    /// Bytes taken for a peer that are still here.
    held: HashMap<Rank, VecDeque<u8>>,
}

impl MemoryFabric {
    fn deliver(&mut self) {
        let mut arrived = self.fabrics.arrived();
        for (&peer, held) in &mut self.held {
            let queue = arrived.entry((self.rank, peer)).or_default();
            let room = self.fabrics.capacity.saturating_sub(queue.len());
            let count = room.min(held.len());
            queue.extend(held.drain(..count));
        }
    }

    fn room(&self, peer: Rank) -> usize {
        let held = self.held.get(&peer).map_or(0, VecDeque::len);
        self.fabrics.capacity.saturating_sub(held)
    }
}

impl DataFabric for MemoryFabric {
    fn try_send(&mut self, peer: Rank, bytes: &[u8]) -> Result<usize, FabricError> {
        self.deliver();
        let count = bytes.len().min(self.room(peer));
        let held = self.held.entry(peer).or_default();
        held.extend(&bytes[..count]);
        Ok(count)
    }

    fn try_recv(&mut self, peer: Rank, buffer: &mut [u8]) -> Result<usize, FabricError> {
        self.deliver();
        let mut arrived = self.fabrics.arrived();
        let queue = arrived.entry((peer, self.rank)).or_default();
        let count = queue.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(queue.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }

    fn poll(&mut self, send: Option<Rank>, recv: Option<Rank>) -> Result<bool, FabricError> {
        self.deliver();
        let has_arrived = |peer: Rank| {
            let arrived = self.fabrics.arrived();
            let queue = arrived.get(&(peer, self.rank));
            queue.is_some_and(|queue| !queue.is_empty())
        };
        Ok(send.is_some_and(|peer| self.room(peer) > 0) || recv.is_some_and(has_arrived))
    }

    fn exchange(
        &mut self,
        messages: MessagePair<'_>,
        take_part: TakePart<'_>,
        after_look: AfterLook<'_>,
    ) -> Exchanged {
        let MessagePair {
            to,
            bytes,
            from,
            length,
        } = messages;
        let mut arrived = self.fabrics.messages();
        let sent = arrived.entry((self.rank, to)).or_default();
        sent.push_back(bytes.to_vec());
        drop(arrived);
        loop {
            let mut arrived = self.fabrics.messages();
            let message = arrived.entry((from, self.rank)).or_default().pop_front();
            drop(arrived);
            if let Some(message) = message {
                assert_eq!(message.len(), length, "from {from} to {}", self.rank);
                let (first, second) =
                    message.split_at(length / 3 / PART_ALIGNMENT * PART_ALIGNMENT);
                take_part(0, first);
                take_part(first.len(), second);
                return Ok(ControlFlow::Continue(()));
            }
            if after_look(false).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    fn unsent(&self) -> Option<Rank> {
        let mut held = self.held.iter();
        held.find_map(|(peer, held)| (!held.is_empty()).then_some(*peer))
    }

    fn abandon(&mut self) {
        self.held.clear();
    }
}
