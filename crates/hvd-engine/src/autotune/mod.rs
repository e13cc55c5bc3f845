//! Autotuning: rank 0 measures how fast allreduces go and tries other parameters while the job
//! runs.
//!
//! [`Meter`] makes speeds of what the coordinator of the global set decides, [`Tuner`] decides what
//! to try next, [`AutotuneLog`] writes it down. New parameters take effect with a response list on
//! the global set, which reaches all ranks at the same point of their order and between two
//! operations. Off unless asked for; over for good when the best is found.
//!
//! Must not know: the wire, or how parameters are put into effect.

mod gaussian;
mod log;
mod meter;
mod parameters;
mod search;
mod tuner;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use log::AutotuneLog;
use meter::Meter;
pub(crate) use parameters::Parameters;
use parameters::SearchSpace;
pub use parameters::{Choice, Dimension};
use tuner::{Next, Tuner, TunerLimits};

/// How autotuning is done.
#[derive(Debug, Clone, PartialEq)]
pub struct AutotuneOptions {
    /// Where rank 0 writes what was tried.
    pub log: Option<PathBuf>,
    /// A log of an earlier job, with whose last row to begin.
    pub start: Option<PathBuf>,
    /// Number of observations at the start that are thrown away.
    pub warmup_samples: u32,
    /// Number of steps that are timed as one sample.
    pub steps_per_sample: u32,
    /// Number of observations after which the search for numbers ends.
    pub max_samples: u32,
    /// Greatest deviation of observations, in units of their spread.
    pub noise: f64,
    /// Numbers that are left as they are.
    pub fixed: Vec<Dimension>,
    /// Switches that are left as they are.
    pub fixed_choices: Vec<Choice>,
}

impl Default for AutotuneOptions {
    fn default() -> Self {
        Self {
            log: None,
            start: None,
            warmup_samples: 3,
            steps_per_sample: 10,
            max_samples: 20,
            noise: 0.8,
            fixed: Vec::new(),
            fixed_choices: Vec::new(),
        }
    }
}

/// The autotuning of one job, on rank 0.
#[derive(Debug)]
pub(crate) struct Autotuner {
    meter: Meter,
    tuner: Tuner,
    log: Option<AutotuneLog>,
    /// Whether the parameters to begin with have been announced.
    begun: bool,
}

/// New parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ParameterChange {
    pub(crate) parameters: Parameters,
    /// Whether these are the last.
    pub(crate) last: bool,
}

impl Autotuner {
    /// Tuning that begins with the given parameters, or those of an earlier log.
    pub(crate) fn new(options: &AutotuneOptions, defaults: Parameters) -> Self {
        let is_free = |choice: &Choice| !options.fixed_choices.contains(choice);
        let choices: Vec<Choice> = Choice::ALL.into_iter().filter(is_free).collect();
        let earlier = options
            .start
            .as_deref()
            .and_then(|path| earlier(path, defaults));
        let start = earlier.map_or(defaults, |earlier| {
            adopt(defaults, earlier, &options.fixed, &choices)
        });
        let limits = TunerLimits {
            warmup_samples: options.warmup_samples,
            max_samples: options.max_samples,
            noise: options.noise,
        };
        Self {
            meter: Meter::new(options.steps_per_sample),
            tuner: Tuner::new(start, limits, &options.fixed, &choices),
            // After the start was read: it may be the same file.
            log: options.log.as_deref().and_then(create),
            begun: false,
        }
    }

    /// Takes in the tensors that are about to be allreduced, with their bytes. Parameters that come
    /// back hold for these already.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        tensors: &[(&Arc<str>, u64)],
    ) -> Option<ParameterChange> {
        let begun = std::mem::replace(&mut self.begun, true);
        let tried = self.tuner.current();
        let Some(speed) = self.meter.observe(now, tensors, self.tuner.hopeless()) else {
            return (!begun).then_some(ParameterChange {
                parameters: tried,
                last: false,
            });
        };
        let counts = self.tuner.is_warm();
        let next = self.tuner.observe(speed);
        if counts {
            self.write("tried", &tried, speed);
        }
        let (parameters, last) = match next {
            Next::Again => return None,
            Next::Try(parameters) => (parameters, false),
            Next::Keep(parameters, speed) => {
                self.write("keeps", &parameters, speed);
                (parameters, true)
            }
        };
        Some(ParameterChange { parameters, last })
    }

    fn write(&mut self, what: &str, parameters: &Parameters, speed: f64) {
        tracing::info!("autotuning {what} {}", log::sentence(parameters, speed));
        if let Some(log) = &mut self.log
            && let Err(error) = log.row(parameters, speed)
        {
            tracing::error!("cannot write to HOROVOD_AUTOTUNE_LOG any more: {error}");
            self.log = None;
        }
    }
}

fn create(path: &Path) -> Option<AutotuneLog> {
    let complain = |error| {
        let path = path.display();
        tracing::error!("cannot write HOROVOD_AUTOTUNE_LOG={path}: {error}; tuning without it");
    };
    AutotuneLog::create(path).map_err(complain).ok()
}

/// What an earlier job ended with.
fn earlier(path: &Path, defaults: Parameters) -> Option<Parameters> {
    let complain = |error| {
        let path = path.display();
        tracing::warn!("HOROVOD_AUTOTUNE_START={path}: {error}; starting from the defaults");
    };
    log::last_row(path, defaults).map_err(complain).ok()
}

/// Takes over what is not fixed.
fn adopt(
    defaults: Parameters,
    earlier: Parameters,
    fixed: &[Dimension],
    choices: &[Choice],
) -> Parameters {
    let point = SearchSpace::new(earlier, fixed).start();
    let mut start = SearchSpace::new(defaults, fixed).at(&point);
    for choice in choices {
        if choice.read(&start) != choice.read(&earlier) {
            start = choice.flip(start);
        }
    }
    start
}

#[cfg(test)]
mod tests;
