//! The settings of autotuning, as options of the engine.

use hvd_config::WorkerConfig;
use hvd_engine::{AutotuneOptions, Choice, Dimension};
use hvd_types::Rank;

/// How to tune, if that is wanted. A value that the user has set is left alone.
pub(crate) fn options(config: &WorkerConfig) -> Option<AutotuneOptions> {
    let autotune = config.autotune.as_ref()?;
    if config.deterministic {
        // Which algorithm sums an element, and in which order, would change on the way. Equal bits
        // are guaranteed, speed is not.
        if config.placement.rank == Rank::COORDINATOR {
            tracing::warn!(
                "HOROVOD_AUTOTUNE has no effect with HOROVOD_DETERMINISTIC=1: results would depend \
                 on what is being tried"
            );
        }
        return None;
    }
    let fixed = [
        (autotune.fixed_fusion_threshold, Dimension::FusionThreshold),
        (autotune.fixed_cycle_time, Dimension::CycleTime),
    ];
    let by_hosts = (config.hierarchical_allreduce, config.hierarchical_allgather);
    let fixed_choices = [
        (by_hosts.0.is_some(), Choice::HierarchicalAllreduce),
        (by_hosts.1.is_some(), Choice::HierarchicalAllgather),
        (autotune.fixed_cache, Choice::Cache),
    ];
    Some(AutotuneOptions {
        log: autotune.log.clone(),
        start: autotune.start.clone(),
        warmup_samples: autotune.warmup_samples,
        steps_per_sample: autotune.steps_per_sample,
        max_samples: autotune.max_samples,
        noise: autotune.noise,
        fixed: chosen(fixed),
        fixed_choices: chosen(fixed_choices),
    })
}

fn chosen<T, const N: usize>(items: [(bool, T); N]) -> Vec<T> {
    let items = items.into_iter().filter(|(is_chosen, _)| *is_chosen);
    items.map(|(_, item)| item).collect()
}
