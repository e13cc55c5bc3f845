//! The parts of an engine, made when it starts: its timeline, its role in the negotiation (on rank
//! 0 the hub, with the autotuner), and its thread.
//!
//! Translates [`EngineOptions`] and nothing more: what the parts do is their own business.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use hvd_collectives::Tuning;
use hvd_transport::{StoreError, Transport};
use hvd_types::{Rank, Topology};

use super::{EngineOptions, ExitReport};
use crate::affinity::Core;
use crate::autotune::{AutotuneOptions, Autotuner, Choice, Parameters};
use crate::cycle_owner::CycleOwner;
use crate::execute::team::Team;
use crate::negotiate::coordinator::CoordinatorOptions;
use crate::negotiate::hub::Hub;
use crate::negotiate::relay::HOLD;
use crate::negotiate::role::ControlRole;
use crate::negotiate::tree::{ControlTree, FAN_OUT, STAR_RANKS, TreePosition};
use crate::timeline::{CycleMarks, Timeline};
use crate::{Error, Result};

/// The timeline, which rank 0 begins to write if the options say so.
pub(super) fn timeline(rank: Rank, options: &EngineOptions) -> Timeline {
    let timeline = Timeline::new();
    if rank == Rank::COORDINATOR
        && let Some((path, mark_cycles)) = &options.timeline
        && let Err(error) = timeline.start(path, cycle_marks(*mark_cycles))
    {
        tracing::error!("{error}");
    }
    timeline
}

/// A rank's role in the negotiation; rank 0's includes the hub.
pub(super) fn control_role(
    rank: Rank,
    topology: &Topology,
    options: &EngineOptions,
    timeline: &Timeline,
) -> ControlRole {
    let hub = (rank == Rank::COORDINATOR).then(|| hub(topology, options, timeline));
    ControlRole::new(position(rank, topology, options.fan_out), hub, HOLD)
}

/// Starts the engine thread, bound to a core if there is one for it.
pub(super) fn engine_thread(
    cycle_owner: Arc<CycleOwner>,
    core: Option<Core>,
    on_exit: impl FnOnce(ExitReport, Box<dyn Transport>) + Send + 'static,
) -> Result<JoinHandle<()>> {
    thread::Builder::new()
        .name("hvd-engine".to_owned())
        .spawn(move || {
            bind(core);
            cycle_owner.run(on_exit);
        })
        .map_err(|error| Error::Internal(StoreError::thread("hvd-engine")(error).to_string()))
}

/// A rank's position in the control tree.
fn position(rank: Rank, topology: &Topology, fan_out: Option<NonZeroUsize>) -> TreePosition {
    match fan_out {
        None if topology.size() <= STAR_RANKS => TreePosition::in_star(rank, topology.size()),
        fan_out => {
            ControlTree::new(topology, fan_out.map_or(FAN_OUT, NonZeroUsize::get)).place(rank)
        }
    }
}

/// Rank 0's half of the negotiation.
pub(crate) fn hub(topology: &Topology, options: &EngineOptions, timeline: &Timeline) -> Hub {
    let mut hub = Hub::new(CoordinatorOptions {
        topology: topology.clone(),
        fusion_threshold: options.fusion_threshold,
        group_fusion: options.group_fusion,
        join_average: options.join_average,
        schedules: options.schedules,
        cache_capacity: options.cache_capacity,
        cycle_time: options.cycle_time,
        stall: options.stall,
        timeline: timeline.clone(),
    });
    if let Some(autotune) = &options.autotune {
        hub.autotune(autotuner(topology, options, autotune));
    }
    hub
}

fn autotuner(
    topology: &Topology,
    options: &EngineOptions,
    autotune: &AutotuneOptions,
) -> Autotuner {
    let tuning = Tuning::default();
    let defaults = Parameters {
        fusion_threshold: options.fusion_threshold,
        cycle_time: options.cycle_time,
        chunk_bytes: tuning.chunk_bytes as u64,
        small_allreduce_bytes: tuning.small_allreduce_bytes as u64,
        hierarchy: options.hierarchy,
        cache: options.cache_capacity > 0,
    };
    let mut autotune = autotune.clone();
    let all_ranks = topology.members().into();
    if Team::new(all_ranks, topology).hosts.is_none() {
        let by_hosts = [Choice::HierarchicalAllreduce, Choice::HierarchicalAllgather];
        autotune.fixed_choices.extend(by_hosts);
    }
    Autotuner::new(&autotune, defaults)
}

/// Binds the engine thread. The core was usable when it was chosen; a job goes on without it.
fn bind(core: Option<Core>) {
    if let Some(core) = core
        && let Err(error) = core.bind()
    {
        tracing::warn!("cannot bind the engine thread to {core:?}: {error}");
    }
}

pub(super) fn cycle_marks(shown: bool) -> CycleMarks {
    if shown {
        CycleMarks::Shown
    } else {
        CycleMarks::Hidden
    }
}
