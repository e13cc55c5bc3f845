//! Bytes on the wire, for the algorithms whose point they are.

use std::time::{Duration, Instant};

use hvd_collectives::{
    Combine, Communicator, PartsMut, Reduction, Workspace, adasum, hierarchical_allgather,
    hierarchical_allreduce,
};
use hvd_testkit::run_ranks_with;
use hvd_transport::mem::{self, MemTransport};
use hvd_transport::{Interest, Lane, Result, Transport, Wake, Waker};
use hvd_types::{DType, Rank};

use crate::harness::{TUNING, topology};

/// Counts what is sent to each rank.
struct Counting {
    inner: MemTransport,
    sent: Vec<usize>,
}

impl Transport for Counting {
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
        let sent = self.inner.try_send(peer, lane, bytes)?;
        self.sent[peer.index()] += sent;
        Ok(sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        self.inner.try_recv(peer, lane, buffer)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        self.inner.wait(interest, deadline)
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }
}

/// What each rank sent to each, if all run `body`.
fn traffic(
    size: usize,
    body: impl Fn(&mut Counting, &mut Workspace) + Send + Sync + 'static,
) -> Vec<Vec<usize>> {
    let ends = run_ranks_with(mem::mesh(size), move |_, inner| {
        let sent = vec![0; inner.size()];
        let mut end = Counting { inner, sent };
        body(&mut end, &mut Workspace::new(TUNING));
        end
    });
    ends.into_iter().map(|end| end.sent).collect()
}

/// Bytes that leave one host for another.
fn between(host_of: &[usize], sent: &[Vec<usize>]) -> usize {
    let row = |(from, sent): (usize, &Vec<usize>)| -> usize {
        let other = |to: &usize| host_of[*to] != host_of[from];
        (0..sent.len()).filter(other).map(|to| sent[to]).sum()
    };
    sent.iter().enumerate().map(row).sum()
}

const SPREADS: [&[usize]; 4] = [
    &[0, 0, 1, 1],
    &[0, 1, 2, 0, 1, 2],
    &[0, 0, 0, 1],
    &[0, 1, 0, 0, 1, 2],
];

#[test]
fn every_byte_of_an_allreduce_leaves_a_host_as_often_as_with_one_rank_per_host() {
    const LENGTH: usize = 8 * 360;
    for host_of in SPREADS {
        let topology = topology(host_of);
        let others = topology.host_count() - 1;
        let sent = traffic(host_of.len(), move |end, workspace| {
            let combine = Combine {
                dtype: DType::Float64,
                reduction: Reduction::Sum,
            };
            hierarchical_allreduce(end, &topology, combine, &mut [0; LENGTH], workspace).unwrap();
        });
        assert_eq!(between(host_of, &sent), 2 * LENGTH * others, "{host_of:?}");
    }
}

#[test]
fn every_part_of_an_allgather_enters_every_other_host_once() {
    for host_of in SPREADS {
        let topology = topology(host_of);
        let others = topology.host_count() - 1;
        let counts: Vec<usize> = (0..host_of.len()).map(|rank| 700 * rank).collect();
        let total: usize = counts.iter().sum();
        let sent = traffic(host_of.len(), move |end, workspace| {
            let output = PartsMut {
                bytes: &mut vec![0; total],
                counts: &counts,
            };
            hierarchical_allgather(end, &topology, output, &workspace.tuning).unwrap();
        });
        assert_eq!(between(host_of, &sent), total * others, "{host_of:?}");
    }
}

#[test]
fn adasum_sends_no_more_than_a_ring_and_its_products() {
    const TENSORS: [usize; 3] = [4 * 80, 4 * 8, 4 * 800];
    const LENGTH: usize = 4 * 888;
    let sent = traffic(8, |end, workspace| {
        let members: Vec<Rank> = (0..8).map(Rank::new).collect();
        let mut comm = Communicator::new(end, &members).unwrap();
        let mut buffer = [0; LENGTH];
        adasum(&mut comm, DType::Float32, &mut buffer, &TENSORS, workspace).unwrap();
    });
    for sent in sent {
        let products = 12 * TENSORS.len() * 3 * 4;
        assert_eq!(sent.iter().sum::<usize>(), 2 * LENGTH / 8 * 7 + products);
    }
}
