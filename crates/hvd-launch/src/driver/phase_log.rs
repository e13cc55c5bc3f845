//! The budget of the phases before the workers run, and what is logged about them. Each phase has a
//! name; one that overruns is named.

use std::time::{Duration, Instant};

use crate::{
    error::{Error, Result},
    messages,
    output::{ConsoleSender, ProgressLine},
    spec::Verbosity,
};

/// Measures the phases of a start against their common budget.
#[derive(Debug)]
pub(crate) struct StartClock {
    began: Instant,
    phase_began: Instant,
    limit: Duration,
}

impl StartClock {
    /// The budget starts to run.
    pub(crate) fn new(limit: Duration) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            phase_began: now,
            limit,
        }
    }

    /// When the budget is used up.
    pub(crate) fn deadline(&self) -> Instant {
        self.began + self.limit
    }

    /// The error of a phase that overran.
    pub(crate) fn overrun(&self, phase: &'static str) -> Error {
        Error::StartTimeout {
            phase,
            limit: self.limit,
        }
    }

    /// A phase is over: how long it took, unless that was too long.
    pub(crate) fn finish(&mut self, phase: &'static str) -> Result<Duration> {
        let now = Instant::now();
        if now > self.deadline() {
            return Err(self.overrun(phase));
        }
        let took = now - self.phase_began;
        self.phase_began = now;
        Ok(took)
    }
}

/// Tells about the launcher's doings, if that was asked for.
#[derive(Clone)]
pub(crate) struct PhaseLog {
    console: ConsoleSender,
    verbosity: Verbosity,
    progress: ProgressLine,
}

impl PhaseLog {
    /// The log of one job.
    pub(crate) fn new(console: ConsoleSender, verbosity: Verbosity) -> Self {
        // With `--verbose` everything is logged line by line instead.
        let progress = match verbosity {
            Verbosity::Quiet => ProgressLine::on_terminal(),
            Verbosity::Verbose => ProgressLine::default(),
        };
        Self {
            console,
            verbosity,
            progress,
        }
    }

    /// Shows what is waited for, until the phase is over.
    pub(crate) fn show_progress(&self, text: &str) {
        self.progress.show(text);
    }

    /// Nothing is waited for any more.
    pub(crate) fn clear_progress(&self) {
        self.progress.clear();
    }

    /// Prints a line at every verbosity. Never waits for the console: signals and ends of
    /// workers must be handled even while its output is not read.
    pub(crate) fn announce(&self, line: String) {
        self.clear_progress();
        let console = self.console.clone();
        tokio::spawn(async move { console.line(&line).await });
    }

    /// Says a line that matters to the curious.
    pub(crate) fn verbose(&self, line: impl FnOnce() -> String) {
        if self.verbosity == Verbosity::Verbose {
            self.announce(line());
        }
    }

    /// A phase is over.
    pub(crate) fn finish_phase(&self, clock: &mut StartClock, phase: &'static str) -> Result<()> {
        let took = clock.finish(phase)?;
        self.verbose(|| messages::phase_done(phase, took));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_that_overruns_is_named_with_the_budget_and_the_option() {
        let error = StartClock::new(Duration::ZERO)
            .overrun("function")
            .to_string();
        assert!(
            error.contains("within 0 s: still in phase `function`"),
            "{error}"
        );
        assert!(error.contains("--start-timeout"), "{error}");
        let mut clock = StartClock::new(Duration::from_secs(60));
        assert!(clock.finish("files").unwrap() < Duration::from_secs(60));
        clock.began = Instant::now().checked_sub(Duration::from_secs(61)).unwrap();
        assert!(matches!(
            clock.finish("spawn"),
            Err(Error::StartTimeout { phase: "spawn", .. })
        ));
    }
}
