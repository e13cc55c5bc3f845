//! Control lanes that take nothing for a while, as one does that is being connected.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hvd_transport::{Interest, Lane, Mesh, Result, Transport, Wake, Waker};
use hvd_types::Rank;

/// How late, for the lane from one rank to another.
pub(crate) type Delay = fn(Rank, Rank) -> Duration;

/// Has each control lane open as long after its first use as `delay` says.
pub(crate) fn with_late_lanes(meshes: Vec<Mesh>, delay: Delay) -> Vec<Mesh> {
    let late = |mesh: Mesh| Mesh {
        transport: Box::new(LateLanes {
            inner: mesh.transport,
            delay,
            opens: HashMap::new(),
        }),
        ..mesh
    };
    meshes.into_iter().map(late).collect()
}

struct LateLanes {
    inner: Box<dyn Transport>,
    delay: Delay,
    /// When the lanes open that were used.
    opens: HashMap<Rank, Instant>,
}

impl Transport for LateLanes {
    fn rank(&self) -> Rank {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn host_of(&self, rank: Rank) -> &str {
        self.inner.host_of(rank)
    }

    fn progress_timeout(&self) -> Duration {
        self.inner.progress_timeout()
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        if lane == Lane::Control {
            let delay = (self.delay)(self.inner.rank(), peer);
            let now = Instant::now();
            if now < *self.opens.entry(peer).or_insert(now + delay) {
                return Ok(0);
            }
        }
        self.inner.try_send(peer, lane, bytes)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        self.inner.try_recv(peer, lane, buffer)
    }

    /// A lane that opens ends a wait of a rank that has something to send on it, and no other.
    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        let Interest::Control { unsent } = interest else {
            return self.inner.wait(interest, deadline);
        };
        let opening = unsent.iter().filter_map(|peer| self.opens.get(peer));
        let Some(&opens) = opening.min().filter(|&&opens| opens > Instant::now()) else {
            return self.inner.wait(interest, deadline);
        };
        // The lane itself could take more, and would end the wait at once.
        let interest = Interest::Control { unsent: &[] };
        let end = deadline.map_or(opens, |deadline| deadline.min(opens));
        let wake = self.inner.wait(interest, Some(end))?;
        let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        Ok(if is_over { wake } else { Wake::Event })
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }
}
