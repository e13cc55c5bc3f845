//! The data lane of one session through MPI: a [`PeerStream`] to each peer that is used, made when
//! it is first needed, and whole messages beside it. Those of different sessions, and of streams and
//! whole messages, have different tags.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hvd_transport::{AfterLook, DataFabric, Exchanged, FabricError, MessagePair, TakePart};
use hvd_types::Rank;

use crate::Mpi;
use crate::error::CallError;
use crate::ffi::Address;
use crate::messages;
use crate::stream::{Buffers, PeerStream};

/// The largest tag that every MPI allows.
const LARGEST_TAG: u64 = 32767;

/// Tags of a session: that of its streams, and the next one for whole messages.
const TAGS: u64 = 2;

/// How long the end of a session may take for messages that have been received already, as all
/// operations have ended.
const CLOSING: Duration = Duration::from_secs(1);

/// One rank's end of a session.
#[derive(Debug)]
pub(crate) struct MpiFabric {
    mpi: Arc<Mpi>,
    tag: c_int,
    streams: HashMap<Rank, PeerStream>,
    buffers: Buffers,
    abandoned: bool,
}

type FabricResult<T> = std::result::Result<T, FabricError>;

impl MpiFabric {
    pub(crate) fn new(mpi: Arc<Mpi>, meeting: u64) -> Self {
        Self {
            mpi,
            tag: c_int::try_from(TAGS * (meeting % (LARGEST_TAG / TAGS))).unwrap_or(0),
            streams: HashMap::new(),
            buffers: Buffers::default(),
            abandoned: false,
        }
    }

    fn with_stream<T>(
        &mut self,
        peer: Rank,
        use_it: impl FnOnce(&mut PeerStream, &Mpi, &mut Buffers) -> Result<T, CallError>,
    ) -> FabricResult<T> {
        let (mpi, tag) = (&*self.mpi, self.tag);
        let stream = self.streams.entry(peer);
        let stream = stream.or_insert_with(|| PeerStream::new(address_of(mpi, peer, tag)));
        use_it(stream, mpi, &mut self.buffers).map_err(|error| FabricError(error.to_string()))
    }

    /// Gives MPI time to forget the requests of this session.
    fn close(&mut self) -> Result<(), CallError> {
        for stream in self.streams.values_mut() {
            stream.cancel_receives()?;
        }
        let end = Instant::now() + CLOSING;
        loop {
            let mut is_finished = true;
            for stream in self.streams.values_mut() {
                is_finished &= stream.is_finished(&mut self.buffers)?;
            }
            if is_finished || Instant::now() >= end {
                return Ok(());
            }
            thread::yield_now();
        }
    }
}

impl DataFabric for MpiFabric {
    fn try_send(&mut self, peer: Rank, bytes: &[u8]) -> FabricResult<usize> {
        self.with_stream(peer, |stream, mpi, buffers| {
            stream.send(mpi.calls(), buffers, bytes)
        })
    }

    fn try_recv(&mut self, peer: Rank, buffer: &mut [u8]) -> FabricResult<usize> {
        self.with_stream(peer, |stream, mpi, buffers| {
            stream.receive(mpi.calls(), buffers, buffer)
        })
    }

    fn poll(&mut self, send: Option<Rank>, recv: Option<Rank>) -> FabricResult<bool> {
        // Nothing else is to be added now, so messages leave as they are.
        for stream in self.streams.values_mut() {
            let pushed = stream.push(self.mpi.calls());
            pushed.map_err(|error| FabricError(error.to_string()))?;
        }
        let mut is_ready = false;
        if let Some(peer) = recv {
            is_ready |= self.with_stream(peer, |stream, mpi, buffers| {
                stream.has_arrived(mpi.calls(), buffers)
            })?;
        }
        if let Some(peer) = send {
            is_ready |= self.with_stream(peer, |stream, _, buffers| stream.can_send(buffers))?;
        }
        if send.is_none() && !is_ready {
            for stream in self.streams.values_mut() {
                let finished = stream.finish_sends(&mut self.buffers);
                finished.map_err(|error| FabricError(error.to_string()))?;
            }
        }
        Ok(is_ready)
    }

    fn exchange(
        &mut self,
        messages: MessagePair<'_>,
        take_part: TakePart<'_>,
        after_look: AfterLook<'_>,
    ) -> Exchanged {
        let address = |peer| address_of(&self.mpi, peer, self.tag + 1);
        let sent = (address(messages.to), messages.bytes);
        let received = (address(messages.from), messages.length);
        let (calls, buffers) = (self.mpi.calls(), &mut self.buffers);
        messages::exchange(calls, buffers, sent, received, take_part, after_look)
            .map_err(|error| FabricError(error.to_string()))
    }

    fn unsent(&self) -> Option<Rank> {
        let mut streams = self.streams.iter();
        streams.find_map(|(peer, stream)| stream.has_unsent().then_some(*peer))
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }
}

fn address_of(mpi: &Mpi, peer: Rank, tag: c_int) -> Address {
    Address {
        communicator: mpi.communicator(),
        peer: c_int::try_from(peer.number()).unwrap_or(c_int::MAX),
        tag,
    }
}

impl Drop for MpiFabric {
    fn drop(&mut self) {
        if self.abandoned || !self.mpi.is_alive_here() {
            return;
        }
        if let Err(error) = self.close() {
            tracing::info!("{error}");
        }
    }
}
