//! The tuner: speeds go in, the next parameters come out. A pure machine without clock or files.
//!
//! It goes through three stages. *Warm-up*: the start, observed and forgotten. *Search*: the
//! numbers, within their bounds. *Contest*: the best point so far is observed once more, and then,
//! one after the other, what might be better still: the start itself, which the search may have
//! left because of an unlucky observation, and each switch turned over. The winner stays.
//!
//! - `TUNE-1` it never leaves the bounds, and what is fixed never changes.
//! - `TUNE-2` it ends: after warm-up, the greatest number of samples, and at most five more.
//! - `TUNE-3` it ends with the start unless something else was observed to be better, right after
//!   the search.

use std::collections::VecDeque;

use super::parameters::{Choice, Dimension, Parameters, SearchSpace};
use super::search::{HOPELESS, ParameterSearch};

/// How much faster a challenger must be: less is noise, and not worth an unusual setting.
const CLEARLY: f64 = 1.02;

/// How the search is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct TunerLimits {
    pub(super) warmup_samples: u32,
    pub(super) max_samples: u32,
    pub(super) noise: f64,
}

/// The state of the tuning.
#[derive(Debug)]
pub(super) struct Tuner {
    space: SearchSpace,
    search: ParameterSearch,
    stage: TuningStage,
    /// What is being observed.
    current: Parameters,
    /// Contests to come.
    challengers: VecDeque<Challenger>,
    fastest: Option<f64>,
}

#[derive(Debug)]
enum TuningStage {
    WarmUp {
        left: u32,
        then: u32,
    },
    ParameterSearch {
        left: u32,
        point: Vec<f64>,
    },
    /// The champion is being observed; or, once its speed is known, a challenger.
    Contest {
        champion: Parameters,
        speed: Option<f64>,
    },
    Over,
}

#[derive(Debug, Clone, Copy)]
enum Challenger {
    Start(Parameters),
    Flipped(Choice),
}

/// What is to be done after an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// Warm-up goes on as before.
    Again,
    /// These are to be observed.
    Try(Parameters),
    /// The tuning is over; these are the best, with their speed.
    Keep(Parameters, f64),
}

impl Tuner {
    pub(super) fn new(
        start: Parameters,
        limits: TunerLimits,
        fixed: &[Dimension],
        choices: &[Choice],
    ) -> Self {
        let space = SearchSpace::new(start, fixed);
        let point = space.start();
        let current = space.at(&point);
        let start = Challenger::Start(current);
        let flipped = choices.iter().copied().map(Challenger::Flipped);
        let mut tuner = Self {
            search: ParameterSearch::new(point, limits.noise),
            space,
            stage: TuningStage::Over,
            current,
            challengers: std::iter::once(start).chain(flipped).collect(),
            fastest: None,
        };
        let (left, then) = (limits.warmup_samples, limits.max_samples);
        tuner.stage = TuningStage::WarmUp { left, then };
        if left == 0 {
            tuner.begin_search(then);
        }
        tuner
    }

    /// What is being observed.
    pub(super) fn current(&self) -> Parameters {
        self.current
    }

    /// The speed below which the parameters being observed have lost.
    pub(super) fn hopeless(&self) -> Option<f64> {
        self.fastest.map(|fastest| fastest / HOPELESS)
    }

    /// Whether observations count, or are part of the warm-up.
    pub(super) fn is_warm(&self) -> bool {
        !matches!(self.stage, TuningStage::WarmUp { .. })
    }

    /// Takes in the speed of the current parameters.
    pub(super) fn observe(&mut self, speed: f64) -> Next {
        match std::mem::replace(&mut self.stage, TuningStage::Over) {
            TuningStage::WarmUp { left: 0 | 1, then } => {
                self.begin_search(then);
                Next::Try(self.current)
            }
            TuningStage::WarmUp { left, then } => {
                let left = left - 1;
                self.stage = TuningStage::WarmUp { left, then };
                Next::Again
            }
            TuningStage::ParameterSearch { left, point } => {
                self.record(speed);
                self.search.record(point, speed);
                self.continue_search(left.saturating_sub(1));
                Next::Try(self.current)
            }
            TuningStage::Contest {
                champion,
                speed: known,
            } => {
                self.record(speed);
                self.judge(champion, known, speed)
            }
            TuningStage::Over => Next::Keep(self.current, speed),
        }
    }

    fn record(&mut self, speed: f64) {
        let faster = self.fastest.is_none_or(|fastest| speed > fastest);
        if faster {
            self.fastest = Some(speed);
        }
    }

    fn begin_search(&mut self, samples: u32) {
        // With nothing to search for, all points are the same.
        let samples = if self.space.start().is_empty() {
            0
        } else {
            samples
        };
        self.continue_search(samples);
    }

    fn continue_search(&mut self, left: u32) {
        if left > 0 {
            let point = self.search.next();
            self.current = self.space.at(&point);
            self.stage = TuningStage::ParameterSearch { left, point };
            return;
        }
        if let Some((point, _)) = self.search.best() {
            self.current = self.space.at(point);
        }
        let champion = self.current;
        self.stage = TuningStage::Contest {
            champion,
            speed: None,
        };
    }

    fn judge(&mut self, champion: Parameters, known: Option<f64>, speed: f64) -> Next {
        let (champion, best) = match known {
            None => (champion, speed),
            Some(known) if speed > known * CLEARLY => (self.current, speed),
            Some(known) => (champion, known),
        };
        while let Some(challenger) = self.challengers.pop_front() {
            let challenger = challenger.against(champion);
            if challenger != champion {
                self.current = challenger;
                let speed = Some(best);
                self.stage = TuningStage::Contest { champion, speed };
                return Next::Try(challenger);
            }
        }
        self.current = champion;
        Next::Keep(champion, best)
    }
}

impl Challenger {
    fn against(self, champion: Parameters) -> Parameters {
        match self {
            Self::Start(start) => start,
            Self::Flipped(choice) => choice.flip(champion),
        }
    }
}

#[cfg(test)]
mod tests;
