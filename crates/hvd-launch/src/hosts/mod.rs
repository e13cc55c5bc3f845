//! The hosts of a job: what the user wrote about them, what they are called and where they are
//! reached. Starts no rank and holds no state; used by the driver, by agents and by `--dry-run`.
//!
//! `host_list.rs`, `hostfile.rs` and `slots.rs` go from what the user wrote to who runs where.
//! `resolve.rs` and `interfaces.rs` ask this machine about names and addresses, `probe.rs` and
//! `measure.rs` try addresses of other hosts, `addresses.rs` chooses among them. `facts.rs` is what a host knows of
//! itself, `allocation/` what a batch system has given the job, `starter/`
//! and `ssh/` are the ways to another host.

mod addresses;
mod allocation;
pub(crate) mod facts;
mod host_list;
mod hostfile;
mod interfaces;
pub(crate) mod measure;
mod peers;
pub(crate) mod probe;
mod resolve;
mod slots;
pub(crate) mod ssh;
pub(crate) mod starter;

pub use addresses::{
    AddressClass, AddressRules, AddressTarget, Candidate, HostAddresses, HostRoute, Probe,
    Reachability, RouteOutcome, choose, targets,
};
pub use allocation::{Allocation, ReadFile, Scheduler};
pub use host_list::{Host, SLOTS_LIMIT, parse_hosts};
pub use hostfile::parse_hostfile;
pub use peers::{PeerPort, own_addresses, probe_peers};
pub(crate) use resolve::{Resolved, is_local_name, resolve, this_machine};
pub use slots::allocate;
pub use starter::Starter;
