//! From what the user wrote to who runs where: pure functions, no processes and no network.

mod addresses;
mod environment;
mod hostfile;
mod hosts;
mod slots;

pub(crate) use addresses::words;
pub use addresses::{
    Candidate, Class, HostAddresses, Outcome, Probe, Reachability, Route, Rules, Target, choose,
    targets,
};
pub use environment::{Meeting, Reach, environment, meeting_variables, passed_on, rank_variables};
pub use hostfile::parse_hostfile;
pub use hosts::{Host, SLOTS_LIMIT, parse_hosts};
pub use slots::allocate;
