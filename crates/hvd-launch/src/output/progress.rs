//! One line about what a start is waiting for, on a terminal only; nothing of it is left behind.

use std::{
    io::IsTerminal,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the line shows that it lives.
const TICK: Duration = Duration::from_millis(100);

/// The line, while there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgressLine {
    is_wanted: bool,
    line: Arc<Mutex<Option<DrawnLine>>>,
}

/// Gone from the terminal when dropped.
#[derive(Debug)]
struct DrawnLine(ProgressBar);

impl Drop for DrawnLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl ProgressLine {
    /// A line on stderr, if that is a terminal.
    pub(crate) fn on_terminal() -> Self {
        Self {
            is_wanted: std::io::stderr().is_terminal(),
            line: Arc::default(),
        }
    }

    /// Shows `text` in place of what was shown before.
    pub(crate) fn show(&self, text: &str) {
        if !self.is_wanted {
            return;
        }
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let line = line.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            DrawnLine(bar)
        });
        line.0.set_message(text.to_owned());
    }

    /// Leaves the terminal as it was before.
    pub(crate) fn clear(&self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        *line = None;
    }
}
