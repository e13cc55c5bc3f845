//! The queue between the engine and the file, and the thread at its far end.
//!
//! The thread sleeps in the queue; the file is written whenever the queue has run empty or enough
//! has come together, so an event is in the file shortly after it happened. It ends when the last
//! [`TimelineSink`] is gone and the queue is empty, or when the file cannot be written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hvd_transport::StoreError;

use super::clock::Clock;
use super::event::TimelineEvent;
use super::file::{Medium, TraceFile};
use super::trace::Trace;
use crate::output_file;

/// Bytes after which the file is written even if more events wait.
const WRITE_SIZE: usize = 64 << 10;

/// How long the end of a recording waits for a file system that does not answer.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The near end of the queue.
pub(super) struct TimelineSink {
    sender: SyncSender<TimelineEvent>,
    dropped: Arc<AtomicU64>,
}

/// The far end has ended; no more events will be read.
pub(super) struct WriterIsGone;

impl TimelineSink {
    /// Hands over an event, or counts it as lost if there is no place for it. Never waits.
    pub(super) fn push(&self, event: TimelineEvent) -> Result<(), WriterIsGone> {
        match self.sender.try_send(event) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => Err(WriterIsGone),
        }
    }
}

/// The far end of the queue.
pub(super) struct EventReceiver {
    events: Receiver<TimelineEvent>,
    dropped: Arc<AtomicU64>,
}

/// A queue of a given length.
pub(super) fn queue(capacity: usize) -> (TimelineSink, EventReceiver) {
    let (sender, events) = mpsc::sync_channel(capacity);
    let dropped = Arc::new(AtomicU64::new(0));
    let sink = TimelineSink {
        sender,
        dropped: Arc::clone(&dropped),
    };
    (sink, EventReceiver { events, dropped })
}

/// The thread that writes one recording.
pub(super) struct TimelineWriter {
    path: PathBuf,
    thread: JoinHandle<()>,
    /// Disconnected when the thread is about to end.
    ended: Receiver<()>,
}

impl TimelineWriter {
    /// Creates the file with its first objects and starts the thread.
    pub(super) fn start(
        path: &Path,
        clock: &dyn Clock,
        capacity: usize,
    ) -> io::Result<(Self, TimelineSink)> {
        let started = clock.now();
        let file = output_file::create_seekable(path)?;
        let file = TraceFile::create(file, &Trace::opening(clock.wall()))?;
        let (sink, source) = queue(capacity);
        let (ending, ended) = mpsc::channel();
        let own_path = path.to_owned();
        let thread = thread::Builder::new()
            .name("hvd-timeline".to_owned())
            .spawn(move || {
                run(file, source, started, &own_path);
                drop(ending);
            })
            .map_err(|error| io::Error::other(StoreError::thread("hvd-timeline")(error)))?;
        let writer = Self {
            path: path.to_owned(),
            thread,
            ended,
        };
        Ok((writer, sink))
    }

    /// Where the recording goes.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the file is complete. The sink must be gone.
    pub(super) fn join(self) {
        if self.ended.recv_timeout(FINISH_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "the timeline `{}` is still being written after {} s; not waiting for it",
                self.path.display(),
                FINISH_TIMEOUT.as_secs()
            );
            return;
        }
        // A panic of the thread has been reported where it happened.
        let _ = self.thread.join();
    }
}

/// Writes events until there are no more, and logs once what went wrong.
pub(super) fn run<M: Medium>(
    mut file: TraceFile<M>,
    source: EventReceiver,
    started: Instant,
    path: &Path,
) {
    let path = path.display();
    let written = write_all(&mut file, &source, started);
    // Also after a failure: what is in the file is worth keeping.
    let finished = file.finish();
    if let Err(error) = written.and(finished) {
        tracing::error!("cannot write the timeline to `{path}`: {error}; recording stops");
    }
    let EventReceiver { dropped, .. } = source;
    let dropped = dropped.load(Ordering::Relaxed);
    if dropped > 0 {
        tracing::warn!("the timeline `{path}` lacks {dropped} events: they came too fast");
    }
}

fn write_all<M: Medium>(
    file: &mut TraceFile<M>,
    source: &EventReceiver,
    started: Instant,
) -> io::Result<()> {
    let mut trace = Trace::new(started);
    let mut latest = started;
    while let Ok(first) = source.events.recv() {
        let mut event = Ok(first);
        while let Ok(next) = event {
            latest = latest.max(next.when());
            trace.add(&next);
            if trace.pending() >= WRITE_SIZE {
                file.append(&trace.take())?;
            }
            event = source.events.try_recv();
        }
        if trace.pending() > 0 {
            file.append(&trace.take())?;
        }
        if event.is_err_and(|error| error == TryRecvError::Disconnected) {
            break;
        }
    }
    let dropped = source.dropped.load(Ordering::Relaxed);
    if dropped > 0 {
        trace.note_dropped(dropped, latest);
        file.append(&trace.take())?;
    }
    Ok(())
}
