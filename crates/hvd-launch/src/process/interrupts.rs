//! The signals that end a job, in the order of their arrival.

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::error::{Error, Result};

/// Signals on their way to the task that waits for them.
pub(crate) struct Interrupts {
    pub(crate) arrived: mpsc::UnboundedReceiver<i32>,
}

impl Interrupts {
    /// Listens from now on.
    pub(crate) fn listen(signals: &[i32]) -> Result<Self> {
        let failed = Error::system("listen for signals");
        let (sender, arrived) = mpsc::unbounded_channel();
        for &number in signals {
            let mut stream = signal(SignalKind::from_raw(number)).map_err(&failed)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(number).is_ok() {}
            });
        }
        Ok(Self { arrived })
    }

    /// The next signal that ends a job.
    pub(crate) async fn next(&mut self) -> i32 {
        match self.arrived.recv().await {
            Some(signal) => signal,
            // Every signal was ignored when the launcher was started.
            None => std::future::pending().await,
        }
    }
}
