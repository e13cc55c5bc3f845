//! The signals that reach the driver: those that end a job, in the order of their arrival, and the
//! news that a child has ended.

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::{Error, Result};

/// Signals on their way to whoever waits for them.
pub(super) struct Interrupts {
    pub(super) arrived: mpsc::UnboundedReceiver<i32>,
    pub(super) child_ended: Signal,
}

impl Interrupts {
    /// Listens from now on.
    pub(super) fn listen(signals: &[i32]) -> Result<Self> {
        let failed = Error::system("listen for signals");
        let (sender, arrived) = mpsc::unbounded_channel();
        for &number in signals {
            let mut stream = signal(SignalKind::from_raw(number)).map_err(&failed)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(number).is_ok() {}
            });
        }
        let child_ended = signal(SignalKind::child()).map_err(&failed)?;
        Ok(Self {
            arrived,
            child_ended,
        })
    }

    /// The next signal that ends a job.
    pub(super) async fn next(&mut self) -> i32 {
        match self.arrived.recv().await {
            Some(signal) => signal,
            // Every signal was ignored when the launcher was started.
            None => std::future::pending().await,
        }
    }
}
