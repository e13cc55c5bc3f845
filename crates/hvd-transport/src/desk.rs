//! Rank 0's ear for the launcher: a thread with a connection to the store of its own, on which it
//! waits for questions, and answers them. Knows neither what is asked nor what is answered.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hvd_config::WorkerConfig;
use hvd_rendezvous::{Client, Error as StoreError, HangUp, inquiry};

use crate::job;

/// Longer than any job; the end of the desk or of the launcher ends the wait.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Answers the launcher until it is dropped.
#[derive(Debug)]
pub struct Desk {
    line: Arc<Mutex<Line>>,
    thread: Option<JoinHandle<()>>,
}

/// How the thread's connection can be ended.
#[derive(Debug)]
enum Line {
    /// Not yet connected.
    Waiting,
    Open(HangUp),
    /// Wanted no more.
    Closed,
}

impl Desk {
    /// Opens the desk of a job that has a launcher; `answer` is called for every question.
    pub fn open(config: &WorkerConfig, answer: impl Fn() -> Vec<u8> + Send + 'static) -> Self {
        let line = Arc::new(Mutex::new(Line::Waiting));
        let (theirs, config) = (Arc::clone(&line), config.clone());
        let thread = config.rendezvous.is_some().then(|| {
            thread::Builder::new()
                .name("hvd-desk".to_owned())
                .spawn(move || {
                    if let Err(error) = attend(&config, &theirs, &answer) {
                        tracing::debug!("`horovodrun debug` gets no answers any more: {error}");
                    }
                })
        });
        let thread = thread.and_then(|started| {
            let refused = StoreError::thread("hvd-desk");
            let failed = |error| tracing::warn!("`horovodrun debug` gets no answers: {error}");
            started.map_err(refused).map_err(failed).ok()
        });
        Self { line, thread }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let line = std::mem::replace(&mut *lock(&self.line), Line::Closed);
        if let Line::Open(hang_up) = line {
            hang_up.now();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn attend(
    config: &WorkerConfig,
    line: &Mutex<Line>,
    answer: &impl Fn() -> Vec<u8>,
) -> Result<(), StoreError> {
    let Some(mut store) = connect(config, line)? else {
        return Ok(());
    };
    for number in 1.. {
        if inquiry::await_question(&mut store, number, FOREVER)? {
            inquiry::answer(&mut store, number, &answer())?;
        }
    }
    Ok(())
}

/// Connects, unless the desk was closed meanwhile.
fn connect(config: &WorkerConfig, line: &Mutex<Line>) -> Result<Option<Client>, StoreError> {
    let store = job::open_client(config, config.timeout)?;
    let mut line = lock(line);
    if matches!(*line, Line::Closed) {
        return Ok(None);
    }
    *line = Line::Open(store.hang_up_handle()?);
    Ok(Some(store))
}

fn lock(line: &Mutex<Line>) -> std::sync::MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}
