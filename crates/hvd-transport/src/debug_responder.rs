//! Rank 0's responder for `horovodrun debug`: a thread with its own connection to the store, on
//! which it waits for the launcher's status queries and answers them. Does not know the contents
//! of an answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hvd_config::WorkerConfig;
use hvd_rendezvous::{Client, Error as StoreError, HangUp, status_query};

use crate::job;

/// Longer than any job; dropping the responder or the end of the launcher ends the wait.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Answers the launcher until it is dropped.
#[derive(Debug)]
pub struct DebugResponder {
    connection: Arc<Mutex<StoreConnection>>,
    thread: Option<JoinHandle<()>>,
}

/// How the thread's connection to the store can be ended.
#[derive(Debug)]
enum StoreConnection {
    Connecting,
    Open(HangUp),
    Closed,
}

impl DebugResponder {
    /// Starts the responder of a job that has a launcher; `answer` is called for every query.
    pub fn open(config: &WorkerConfig, answer: impl Fn() -> Vec<u8> + Send + 'static) -> Self {
        let connection = Arc::new(Mutex::new(StoreConnection::Connecting));
        let (theirs, config) = (Arc::clone(&connection), config.clone());
        let thread = config.rendezvous.is_some().then(|| {
            thread::Builder::new()
                .name("hvd-debug".to_owned())
                .spawn(move || {
                    if let Err(error) = serve(&config, &theirs, &answer) {
                        tracing::debug!("`horovodrun debug` gets no answers any more: {error}");
                    }
                })
        });
        let thread = thread.and_then(|started| {
            let refused = StoreError::thread("hvd-debug");
            let failed = |error| tracing::warn!("`horovodrun debug` gets no answers: {error}");
            started.map_err(refused).map_err(failed).ok()
        });
        Self { connection, thread }
    }
}

impl Drop for DebugResponder {
    fn drop(&mut self) {
        let connection = std::mem::replace(&mut *lock(&self.connection), StoreConnection::Closed);
        if let StoreConnection::Open(hang_up) = connection {
            hang_up.now();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    config: &WorkerConfig,
    connection: &Mutex<StoreConnection>,
    answer: &impl Fn() -> Vec<u8>,
) -> Result<(), StoreError> {
    let Some(mut store) = connect(config, connection)? else {
        return Ok(());
    };
    for number in 1.. {
        if status_query::wait(&mut store, number, FOREVER)? {
            status_query::answer(&mut store, number, &answer())?;
        }
    }
    Ok(())
}

/// Connects, unless the responder was dropped meanwhile.
fn connect(
    config: &WorkerConfig,
    connection: &Mutex<StoreConnection>,
) -> Result<Option<Client>, StoreError> {
    let store = job::open_client(config, config.timeout)?;
    let mut connection = lock(connection);
    if matches!(*connection, StoreConnection::Closed) {
        return Ok(None);
    }
    *connection = StoreConnection::Open(store.hang_up_handle()?);
    Ok(Some(store))
}

fn lock(connection: &Mutex<StoreConnection>) -> std::sync::MutexGuard<'_, StoreConnection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}
