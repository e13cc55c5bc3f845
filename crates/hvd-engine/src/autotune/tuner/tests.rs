//! Whole tunings of jobs that exist only as a formula for their speed.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::autotune::parameters::float;
use crate::autotune::parameters::tests::{defaults, is_within_bounds};

const LIMITS: TunerLimits = TunerLimits {
    warmup_samples: 3,
    max_samples: 20,
    noise: 0.8,
};

/// What a tuning tried, warm-up left out, and what it ended with.
struct TuningRun {
    tried: Vec<(Parameters, f64)>,
    kept: Parameters,
    observations: u32,
}

fn tune(mut tuner: Tuner, mut speed: impl FnMut(&Parameters) -> f64) -> TuningRun {
    let mut tried = Vec::new();
    for observations in 1..10_000 {
        let current = tuner.current();
        let observed = speed(&current);
        if tuner.is_warm() {
            tried.push((current, observed));
        }
        match tuner.observe(observed) {
            Next::Again => assert_eq!(tuner.current(), current),
            Next::Try(next) => assert_eq!(tuner.current(), next),
            Next::Keep(kept, _) => {
                return TuningRun {
                    tried,
                    kept,
                    observations,
                };
            }
        }
    }
    panic!("the tuning does not end");
}

fn tuner(start: Parameters, fixed: &[Dimension], choices: &[Choice]) -> Tuner {
    Tuner::new(start, LIMITS, fixed, choices)
}

/// Many small tensors: time per operation counts, and a cycle time delays everything.
fn many_small_tensors(parameters: &Parameters) -> f64 {
    let bytes = f64::from(1 << 20);
    let operations = if parameters.fusion_threshold == 0 {
        256.0
    } else {
        (bytes / float(parameters.fusion_threshold)).max(1.0)
    };
    let steps = if float(parameters.small_allreduce_bytes) >= bytes / operations {
        1.0
    } else {
        3.0
    };
    let cycle = parameters.cycle_time.as_secs_f64() * 1e6;
    let negotiation = if parameters.cache { 20.0 } else { 60.0 };
    bytes / (200.0 + cycle + negotiation + operations * 10.0 * steps)
}

fn wobble(index: u32) -> f64 {
    1.0 + 0.1 * ((f64::from(index) * 0.754_877_666).fract() - 0.5)
}

#[test]
fn a_bad_start_ends_well() {
    let bad = Parameters {
        fusion_threshold: 0,
        cycle_time: Duration::from_millis(20),
        small_allreduce_bytes: 1 << 10,
        cache: false,
        ..defaults()
    };
    let mut index = 0;
    let run = tune(tuner(bad, &[], &[Choice::Cache]), |parameters| {
        index += 1;
        many_small_tensors(parameters) * wobble(index)
    });
    let gain = many_small_tensors(&run.kept) / many_small_tensors(&bad);
    assert!(gain > 20.0, "{gain}: {:?}", run.kept);
    assert!(run.kept.cache, "the switch is found too");
}

#[test]
fn tune_3_a_good_start_is_kept_or_improved() {
    for seed in 0..20 {
        let mut index = seed * 1000;
        let run = tune(tuner(defaults(), &[], &Choice::ALL), |parameters| {
            index += 1;
            many_small_tensors(parameters) * wobble(index)
        });
        let gain = many_small_tensors(&run.kept) / many_small_tensors(&defaults());
        assert!(gain > 0.9, "{gain}: {:?}", run.kept);
    }
}

#[test]
fn tune_3_an_unlucky_observation_does_not_decide() {
    let mut observation = 0;
    let run = tune(tuner(defaults(), &[], &[]), |parameters| {
        observation += 1;
        let is_start = *parameters == defaults();
        // The start is the best, but looks bad during the search.
        if is_start && observation > 10 {
            2.0
        } else {
            1.0
        }
    });
    assert_eq!(run.kept, defaults());
}

#[test]
fn the_first_observation_is_of_the_start() {
    let run = tune(tuner(defaults(), &[], &[]), many_small_tensors);
    assert_eq!(run.tried[0].0, defaults());
    assert_eq!(
        u32::try_from(run.tried.len()).unwrap(),
        run.observations - 3,
        "after the warm-up"
    );
}

#[test]
fn without_samples_only_switches_are_tuned() {
    let limits = TunerLimits {
        warmup_samples: 0,
        max_samples: 0,
        noise: 0.8,
    };
    let bad = Parameters {
        cache: false,
        ..defaults()
    };
    let run = tune(
        Tuner::new(bad, limits, &[], &[Choice::Cache]),
        many_small_tensors,
    );
    assert_eq!(run.kept, defaults());
    assert_eq!(run.observations, 2);
}

#[test]
fn with_everything_fixed_one_observation_is_enough() {
    let limits = TunerLimits {
        warmup_samples: 0,
        ..LIMITS
    };
    let fixed = Tuner::new(defaults(), limits, &Dimension::ALL, &[]);
    let run = tune(fixed, many_small_tensors);
    assert_eq!((run.kept, run.observations), (defaults(), 1));
}

#[test]
fn what_has_lost_is_known() {
    let mut tuner = tuner(defaults(), &[], &[]);
    assert_eq!(tuner.hopeless(), None);
    for _ in 0..4 {
        tuner.observe(16.0);
    }
    assert_eq!(tuner.hopeless(), Some(2.0));
}

/// Whatever the speeds are: nonsense, zeros, extremes.
fn speeds() -> impl Strategy<Value = Vec<f64>> {
    let speed = prop_oneof![0.0..1e6_f64, Just(0.0), Just(f64::MAX), 1e-300..1e-290_f64];
    prop::collection::vec(speed, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tune_1_and_2_within_bounds_fixed_untouched_and_over(
        speeds in speeds(),
        warmup_samples in 0..4_u32,
        max_samples in 0..30_u32,
        noise in 0.0..=1.0_f64,
        fixed in prop::sample::subsequence(Dimension::ALL.to_vec(), 0..=4),
        choices in prop::sample::subsequence(Choice::ALL.to_vec(), 0..=3),
    ) {
        let limits = TunerLimits { warmup_samples, max_samples, noise };
        let mut turn = speeds.iter().cycle();
        let machine = Tuner::new(defaults(), limits, &fixed, &choices);
        let run = tune(machine, |_| *turn.next().unwrap());
        prop_assert!(run.observations <= warmup_samples + max_samples + 5);
        for (tried, _) in run.tried.iter().chain([&(run.kept, 0.0)]) {
            prop_assert!(is_within_bounds(tried));
            for choice in Choice::ALL.iter().filter(|choice| !choices.contains(choice)) {
                prop_assert!(choice.read(tried) == choice.read(&defaults()));
            }
            for dimension in &fixed {
                prop_assert!(is_same(*dimension, tried, &defaults()));
            }
        }
    }
}

fn is_same(dimension: Dimension, a: &Parameters, b: &Parameters) -> bool {
    match dimension {
        Dimension::FusionThreshold => a.fusion_threshold == b.fusion_threshold,
        Dimension::CycleTime => a.cycle_time == b.cycle_time,
        Dimension::ChunkBytes => a.chunk_bytes == b.chunk_bytes,
        Dimension::SmallAllreduceBytes => a.small_allreduce_bytes == b.small_allreduce_bytes,
    }
}
