//! Collectives that know which ranks share a host, and cross the network as little as they can.

mod allgather;
mod allreduce;
mod reduce;

use hvd_transport::Transport;
use hvd_types::{Location, Topology};

use crate::{Error, Result};

pub use allgather::hierarchical_allgather;
pub use allreduce::hierarchical_allreduce;

/// Where the transport's own rank is. Fails, on all ranks alike, if the transport does not connect
/// all members.
fn own_location(transport: &dyn Transport, topology: &Topology) -> Result<Location> {
    let (rank, size) = (transport.rank(), transport.size());
    let members = topology.members();
    if let Some(&rank) = members.last().filter(|rank| rank.index() >= size) {
        return Err(Error::UnknownRank { rank, size });
    }
    let members = members.len();
    let location = topology.location(rank);
    location.ok_or(Error::NotAMember { rank, members })
}
