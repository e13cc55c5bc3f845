//! Features that are on or off as a whole and have settings of their own.

use std::path::PathBuf;
use std::time::Duration;

use hvd_types::Placement;

use crate::environment::malformed;
use crate::setting::name;
use crate::setting::values::parse_cores;
use crate::{Environment, Error, Result};

/// Where the record of operations goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimelineMode {
    /// Into this file, from the start.
    File(PathBuf),
    /// Nowhere until a program asks for it.
    Dynamic,
}

/// When tensors that only some ranks have submitted are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StallCheck {
    /// How long a tensor waits before it is reported.
    pub warning: Duration,
    /// How long a tensor waits before the job is ended, if ever; not less than `warning`.
    pub shutdown: Option<Duration>,
}

/// How the search for the fastest parameters is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Autotune {
    /// Where to write what was tried.
    pub log: Option<PathBuf>,
    /// The log of an earlier search, with whose last row to begin.
    pub start: Option<PathBuf>,
    /// Number of observations at the start that are thrown away.
    pub warmup_samples: u32,
    /// Number of steps that are timed as one sample; not 0.
    pub steps_per_sample: u32,
    /// Number of observations after which the search ends.
    pub max_samples: u32,
    /// How far measured speeds are off at most, in units of their spread, from 0 to 1.
    pub noise: f64,
    /// The user has set the fusion threshold, so it is not tuned.
    pub fixed_fusion_threshold: bool,
    /// The user has set the cycle time, so it is not tuned.
    pub fixed_cycle_time: bool,
    /// The user has set the cache's capacity, so whether there is a cache is not tuned.
    pub fixed_cache: bool,
}

impl TimelineMode {
    pub(super) fn read(environment: &Environment) -> Option<Self> {
        match environment.text(name::TIMELINE)? {
            "DYNAMIC" => Some(Self::Dynamic),
            path => Some(Self::File(path.into())),
        }
    }
}

impl StallCheck {
    pub(super) fn read(environment: &Environment) -> Result<Option<Self>> {
        let warning = environment.value(name::STALL_CHECK_TIME, |&seconds: &u32| seconds > 0)?;
        let shutdown: u32 = environment.value(name::STALL_SHUTDOWN_TIME, |_| true)?;
        if environment.flag(name::STALL_CHECK_DISABLE)? {
            return Ok(None);
        }
        if (1..warning).contains(&shutdown) {
            return Err(Error::TooSoon {
                variable: name::STALL_SHUTDOWN_TIME,
                value: shutdown,
                least_variable: name::STALL_CHECK_TIME,
                least: warning,
            });
        }
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        Ok(Some(Self {
            warning: seconds(warning),
            shutdown: (shutdown > 0).then(|| seconds(shutdown)),
        }))
    }
}

impl Autotune {
    pub(super) fn read(environment: &Environment) -> Result<Option<Self>> {
        let is_set = |variable| environment.text(variable).is_some();
        let autotune = Self {
            log: environment.path(name::AUTOTUNE_LOG),
            start: environment.path(name::AUTOTUNE_START),
            warmup_samples: environment.value(name::AUTOTUNE_WARMUP_SAMPLES, |_| true)?,
            steps_per_sample: environment
                .value(name::AUTOTUNE_STEPS_PER_SAMPLE, |&steps| steps > 0)?,
            max_samples: environment.value(name::AUTOTUNE_MAX_SAMPLES, |_| true)?,
            noise: environment.value(name::AUTOTUNE_NOISE, |noise| (0.0..=1.0).contains(noise))?,
            fixed_fusion_threshold: is_set(name::FUSION_THRESHOLD),
            fixed_cycle_time: is_set(name::CYCLE_TIME),
            fixed_cache: is_set(name::CACHE_CAPACITY),
        };
        Ok(environment.flag(name::AUTOTUNE)?.then_some(autotune))
    }
}

/// The cores for the processes of this host, by local rank; at least one for each.
pub(super) fn thread_affinity(
    environment: &Environment,
    placement: &Placement,
) -> Result<Option<Vec<usize>>> {
    let variable = name::THREAD_AFFINITY;
    let Some(text) = environment.text(variable) else {
        return Ok(None);
    };
    let cores = parse_cores(text).ok_or_else(|| malformed(variable, text))?;
    let needed = placement.local_size;
    if u32::try_from(cores.len()).is_ok_and(|entries| entries < needed) {
        return Err(Error::TooFew {
            variable,
            entries: cores.len(),
            needed_variable: name::LOCAL_SIZE,
            needed,
        });
    }
    Ok(Some(cores))
}
