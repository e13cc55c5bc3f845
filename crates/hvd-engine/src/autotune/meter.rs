//! From allreduced tensors to speeds: steps, samples, observations. The time is an argument.
//!
//! A step is over when one of its tensors comes again. A sample is some steps; its speed is the
//! allreduced bytes per microsecond. An observation is the median of five samples, so that a pause
//! of the program, for a checkpoint say, spoils a sample and not the observation.
//!
//! - `METER-1` bytes count for the parameters they travelled with: those of the tensors that end a
//!   sample belong to the next one.
//! - `METER-2` what is hopelessly slow is not measured any longer than it takes to be sure, or one
//!   bad point would cost more time than all others together.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::parameters::float;

/// Samples of an observation.
const SAMPLES: usize = 5;

/// Samples that are enough if all of them are hopeless, and steps of each.
const HOPELESS_SAMPLES: usize = 2;
const HOPELESS_STEPS: u32 = 2;

/// A program that gives every tensor a new name has no steps one could see; so many of its tensors
/// are taken for one.
const LONGEST_STEP: usize = 4096;

/// Measures one observation after the other.
#[derive(Debug)]
pub(super) struct Meter {
    steps_per_sample: u32,
    /// Tensors of the step under way.
    names: HashSet<Arc<str>>,
    /// When the sample under way began.
    began: Option<Instant>,
    steps: u32,
    bytes: u64,
    /// Speeds of the observation under way.
    samples: Vec<f64>,
}

impl Meter {
    pub(super) fn new(steps_per_sample: u32) -> Self {
        Self {
            steps_per_sample: steps_per_sample.max(1),
            names: HashSet::new(),
            began: None,
            steps: 0,
            bytes: 0,
            samples: Vec::with_capacity(SAMPLES),
        }
    }

    /// Takes in tensors that are about to travel, with their bytes, and returns the speed if that
    /// ends an observation. Speeds below `hopeless` need not be known exactly.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        tensors: &[(&Arc<str>, u64)],
        hopeless: Option<f64>,
    ) -> Option<f64> {
        if tensors.is_empty() {
            return None;
        }
        let began = *self.began.get_or_insert(now);
        let again = tensors.iter().any(|(name, _)| self.names.contains(*name));
        let mut observed = None;
        if again || self.names.len() >= LONGEST_STEP {
            self.names.clear();
            self.steps += 1;
            observed = self.end_step(now, now.duration_since(began), hopeless);
        }
        for &(name, bytes) in tensors {
            self.names.insert(Arc::clone(name));
            self.bytes = self.bytes.saturating_add(bytes);
        }
        observed
    }

    fn end_step(&mut self, now: Instant, time: Duration, hopeless: Option<f64>) -> Option<f64> {
        let speed = speed(self.bytes, time);
        let is_hopeless = |speed: f64| hopeless.is_some_and(|least| speed < least);
        let early = self.steps >= HOPELESS_STEPS && is_hopeless(speed);
        if self.steps < self.steps_per_sample && !early {
            return None;
        }
        self.samples.push(speed);
        (self.began, self.steps, self.bytes) = (Some(now), 0, 0);
        let given_up = self.samples.len() >= HOPELESS_SAMPLES
            && self.samples.iter().all(|&speed| is_hopeless(speed));
        if self.samples.len() < SAMPLES && !given_up {
            return None;
        }
        self.samples.sort_by(f64::total_cmp);
        let median = self.samples[self.samples.len() / 2];
        self.samples.clear();
        Some(median)
    }
}

/// Bytes per microsecond.
fn speed(bytes: u64, time: Duration) -> f64 {
    let time = time.max(Duration::from_nanos(1)).as_secs_f64() * 1e6;
    float(bytes) / time
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job whose steps are the same two tensors of 500 bytes each.
    struct Job {
        meter: Meter,
        now: Instant,
        names: [Arc<str>; 2],
    }

    impl Job {
        fn new(steps_per_sample: u32) -> Self {
            Self {
                meter: Meter::new(steps_per_sample),
                now: Instant::now(),
                names: ["a".into(), "b".into()],
            }
        }

        fn step(&mut self, microseconds: u64, hopeless: Option<f64>) -> Option<f64> {
            let [a, b] = &self.names;
            let first = self.meter.observe(self.now, &[(a, 500)], hopeless);
            let second = self.meter.observe(self.now, &[(b, 500)], hopeless);
            assert_eq!(second, None, "a new tensor ends nothing");
            self.now += Duration::from_micros(microseconds);
            first
        }
    }

    #[test]
    fn an_observation_is_five_samples_of_some_steps() {
        let mut job = Job::new(3);
        for observation in 0..2 {
            let steps = if observation == 0 { 15 } else { 14 };
            for _ in 0..steps {
                assert_eq!(job.step(100, None), None);
            }
            let speed = job.step(100, None).unwrap();
            assert!((speed - 10.0).abs() < 1e-9, "{speed}");
        }
    }

    #[test]
    fn a_pause_does_not_spoil_it() {
        let mut job = Job::new(1);
        for time in [100, 100, 1_000_000, 100, 100] {
            assert_eq!(job.step(time, None), None);
        }
        let speed = job.step(100, None).unwrap();
        assert!((speed - 10.0).abs() < 1e-9, "{speed}");
    }

    #[test]
    fn meter_1_bytes_count_for_the_parameters_they_travelled_with() {
        let mut job = Job::new(1);
        let large: Arc<str> = "large".into();
        for _ in 0..5 {
            assert_eq!(job.step(100, None), None);
        }
        let [a, _] = &job.names;
        let tensors = [(a, 500), (&large, 1 << 40)];
        let speed = job.meter.observe(job.now, &tensors, None).unwrap();
        assert!((speed - 10.0).abs() < 1e-9, "{speed}");
    }

    #[test]
    fn meter_2_what_is_hopeless_ends_early_but_a_pause_is_not_hopeless() {
        let mut job = Job::new(10);
        let steps = (1..100).find(|_| job.step(10_000, Some(1.0)).is_some());
        assert_eq!(steps, Some(5), "two steps, twice, and what begins the next");
        let mut job = Job::new(10);
        job.step(1_000_000, Some(1.0));
        let steps = (1..100).find(|_| job.step(100, Some(1.0)).is_some());
        assert_eq!(steps, Some(42), "one sample of two steps, four whole ones");
    }

    #[test]
    fn tensors_that_never_come_again_are_steps_too() {
        let mut meter = Meter::new(1);
        let mut now = Instant::now();
        let observed = (0..10 * LONGEST_STEP).find(|index| {
            now += Duration::from_micros(1);
            let name: Arc<str> = format!("{index}").into();
            meter.observe(now, &[(&name, 1)], None).is_some()
        });
        assert_eq!(observed, Some(5 * LONGEST_STEP));
        assert!(meter.names.len() <= LONGEST_STEP);
    }

    #[test]
    fn no_time_at_all_is_still_a_speed() {
        assert!(speed(1, Duration::ZERO).is_finite());
    }
}
