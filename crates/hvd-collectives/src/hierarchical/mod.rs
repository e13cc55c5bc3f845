//! Collectives that know which ranks share a host, and cross the network as little as they can.

mod allgather;
mod allreduce;
mod hosts;
mod reduce;

pub use allgather::hierarchical_allgather;
pub use allreduce::hierarchical_allreduce;
pub use hosts::Hosts;
