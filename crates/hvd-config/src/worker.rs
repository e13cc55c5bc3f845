//! What a worker is told through its environment, as one value. The parts with rules of their own
//! stand in `worker/`. Does not know what the engine makes of it.

mod choice;
mod feature;
mod identity;
mod mpi;
mod network;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use hvd_types::Placement;

pub use choice::{EncryptionChoice, JoinAverageChoice, LogLevel, TransportChoice};
pub use feature::{AutotuneConfig, StallCheck, TimelineTarget};
pub(crate) use identity::key_source;
pub use identity::{KeySource, RendezvousConfig};
pub use mpi::{LauncherFamily, MpiConfig, MpiThreads};
pub(crate) use network::port_range;

use crate::setting::{Setting, name};
use crate::{Environment, Error, Result};

/// Everything a worker's engine wants to know, checked.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one per switch of the environment"
)]
pub struct WorkerConfig {
    /// Where this process stands in its job.
    pub placement: Placement,
    /// Where the ranks meet; `None` for a process that was started alone.
    pub rendezvous: Option<RendezvousConfig>,
    /// Where the ranks of this host reach each other host, by its name; `None` if all ranks reach
    /// each other at the addresses they listen at.
    pub host_addresses: Option<BTreeMap<String, IpAddr>>,
    /// The ports at which this rank may listen; `None` for any.
    pub port_range: Option<RangeInclusive<u16>>,
    /// How long to wait for other ranks, at init and inside an operation.
    pub timeout: Duration,
    /// What moves the bytes.
    pub transport: TransportChoice,
    /// What is encrypted on connections between ranks.
    pub encryption: EncryptionChoice,
    /// How to find MPI, if it moves tensors between hosts.
    pub mpi: Option<MpiConfig>,
    /// Whether the user asked for MPI's control plane; Horovod's own is used all the same.
    pub mpi_controller: bool,
    /// How many connections carry tensors between two ranks; `None` leaves it to the transport.
    pub tcp_connections: Option<u8>,
    /// The algorithm of congestion control; `None` leaves it to the transport.
    pub tcp_congestion: Option<String>,
    /// Largest fused buffer in bytes; 0 turns fusion off.
    pub fusion_threshold: u64,
    /// Least time between two rounds of negotiation.
    pub cycle_time: Duration,
    /// Number of tensors whose negotiation is remembered.
    pub cache_capacity: usize,
    /// Whether steps that are always the same are executed without negotiation.
    pub schedule: bool,
    /// How many ranks and hosts one rank speaks for in the negotiation, if that is set.
    pub control_fan_out: Option<NonZeroUsize>,
    /// What is logged.
    pub log_level: LogLevel,
    /// Whether log lines carry the time.
    pub log_time: bool,
    /// Whether process sets may be added and removed after init.
    pub dynamic_process_sets: bool,
    /// Whether tensors of a group are kept from being fused with others.
    pub disable_group_fusion: bool,
    /// What averages are divided by while some ranks have joined.
    pub join_average: JoinAverageChoice,
    /// Whether reductions must give the same bits in every run.
    pub deterministic: bool,
    /// Whether to reduce inside hosts first; `None` leaves it to the engine.
    pub hierarchical_allreduce: Option<bool>,
    /// Whether to gather inside hosts first; `None` leaves it to the engine.
    pub hierarchical_allgather: Option<bool>,
    /// The core for each process of this host, by local rank.
    pub thread_affinity: Option<Vec<usize>>,
    /// The record of operations, if there is one.
    pub timeline: Option<TimelineTarget>,
    /// Whether the record marks each round of negotiation.
    pub timeline_mark_cycles: bool,
    /// When missing ranks are reported; `None` if never.
    pub stall_check: Option<StallCheck>,
    /// The search for the fastest parameters, if there is one.
    pub autotune: Option<AutotuneConfig>,
    /// Where a failed job leaves a report of the engine's state.
    pub dump_dir: Option<PathBuf>,
    /// Whether the number of ranks may change.
    pub elastic: bool,
    /// Whether nothing has told this process its place, so that it is a job of its own: a mistake
    /// below a launcher of ours, unless `HOROVOD_IGNORE_LAUNCHER` says that it is meant.
    pub must_be_unlaunched: bool,
    /// Settings that the user has changed and that have no effect yet, for a warning.
    pub without_effect: Vec<&'static Setting>,
}

impl WorkerConfig {
    /// Reads and checks the settings, those without effect too. The fusion threshold is rounded up
    /// to a multiple of 512 bytes per local rank, so that equal shares of a full buffer end on
    /// whole elements.
    pub fn read(environment: &Environment) -> Result<Self> {
        environment.check()?;
        let encryption = EncryptionChoice::read(environment)?;
        let mpi = MpiConfig::read(environment)?;
        if mpi.is_some() && encryption == EncryptionChoice::All {
            return Err(Error::Unencrypted);
        }
        let is_placed = identity::is_given(environment);
        let placement = identity::placement(environment)?;
        let atom = u64::from(placement.local_size) * 512;
        let threshold: u64 = environment.value(name::FUSION_THRESHOLD, |_| true)?;
        let cycle: f64 = environment.value(name::CYCLE_TIME, |&cycle| is_duration(cycle))?;
        let seconds: u64 = environment.value(name::TIMEOUT, |&seconds| seconds > 0)?;
        Ok(Self {
            rendezvous: identity::rendezvous(environment, &placement)?,
            host_addresses: network::host_addresses(environment)?,
            port_range: network::port_range(environment)?,
            timeout: Duration::from_secs(seconds),
            transport: TransportChoice::read(environment)?,
            encryption,
            mpi,
            mpi_controller: mpi::is_controller(environment)?,
            tcp_connections: network::tcp_connections(environment)?,
            tcp_congestion: network::tcp_congestion(environment),
            fusion_threshold: threshold
                .checked_next_multiple_of(atom)
                .unwrap_or(threshold),
            cycle_time: Duration::from_secs_f64(cycle / 1000.0),
            cache_capacity: environment.value(name::CACHE_CAPACITY, |_| true)?,
            schedule: environment.flag(name::SCHEDULE)?,
            control_fan_out: network::control_fan_out(environment)?,
            log_level: LogLevel::read(environment)?,
            log_time: !environment.flag(name::LOG_HIDE_TIME)?,
            dynamic_process_sets: environment.flag(name::DYNAMIC_PROCESS_SETS)?,
            disable_group_fusion: environment.flag(name::DISABLE_GROUP_FUSION)?,
            join_average: JoinAverageChoice::read(environment)?,
            deterministic: environment.flag(name::DETERMINISTIC)?,
            hierarchical_allreduce: environment.optional_flag(name::HIERARCHICAL_ALLREDUCE)?,
            hierarchical_allgather: environment.optional_flag(name::HIERARCHICAL_ALLGATHER)?,
            thread_affinity: feature::thread_affinity(environment, &placement)?,
            timeline: TimelineTarget::read(environment),
            timeline_mark_cycles: environment.flag(name::TIMELINE_MARK_CYCLES)?,
            stall_check: StallCheck::read(environment)?,
            autotune: AutotuneConfig::read(environment)?,
            dump_dir: environment.path(name::DUMP_DIR),
            elastic: environment.flag(name::ELASTIC)?,
            must_be_unlaunched: !is_placed && !environment.flag(name::IGNORE_LAUNCHER)?,
            without_effect: own_without_effect(environment),
            placement,
        })
    }
}

/// Variables of other libraries are left out: those may well heed them.
fn own_without_effect(environment: &Environment) -> Vec<&'static Setting> {
    let mut settings = environment.without_effect();
    settings.retain(|setting| setting.variable.starts_with("HOROVOD_"));
    settings
}

/// Milliseconds that are a time and not an accident.
fn is_duration(milliseconds: f64) -> bool {
    (0.0..=3_600_000.0).contains(&milliseconds)
}
