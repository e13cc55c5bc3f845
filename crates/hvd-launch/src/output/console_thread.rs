//! The thread `hvd-console` that writes everything the job says, to the console and to the files. A
//! thread, because a terminal that is paused or a disk that hangs must not keep the launcher from
//! handling signals and ends of workers. The queue to it is short: when its output is not read, the
//! workers feel it in their pipes, as they would without a launcher.

use std::{fs::File, sync::Arc, thread};

use hvd_types::{Rank, printable};
use tokio::sync::{
    Notify,
    mpsc::{self, Receiver, Sender},
    oneshot,
};

use super::{console::Console, files::OutputFiles};
use crate::{
    error::{Error, Result},
    messages,
    process::Stream,
};

/// Pieces on their way to the console.
const QUEUE: usize = 64;

enum ConsoleMessage {
    Output {
        rank: Rank,
        stream: Stream,
        bytes: Vec<u8>,
    },
    Line(String),
}

/// The way to the console and the files; may be cloned for every stream.
#[derive(Clone)]
pub(crate) struct ConsoleSender(Sender<ConsoleMessage>);

impl ConsoleSender {
    /// Forwards prefixed lines of a rank.
    pub(crate) async fn output(&self, rank: Rank, stream: Stream, bytes: Vec<u8>) {
        // The thread ends only after all senders are gone, so this cannot be lost.
        let _ = self
            .0
            .send(ConsoleMessage::Output {
                rank,
                stream,
                bytes,
            })
            .await;
    }

    /// Says something of the launcher's own, one line, on stderr.
    pub(crate) async fn line(&self, line: &str) {
        self.report(format!("{}{line}\n", messages::SPEAKER)).await;
    }

    /// Says something of the launcher's own, already put into lines, on stderr. What it quotes of
    /// ranks and hosts is made safe to print.
    pub(crate) async fn report(&self, lines: String) {
        let lines = printable(&lines).into_owned();
        let _ = self.0.send(ConsoleMessage::Line(lines)).await;
    }
}

/// What became of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// All of it was written where it belongs.
    Complete,
    /// Lines are missing on the console or in a file of `--output-filename`; that was said.
    Incomplete,
}

/// The launcher's hold on the thread.
pub(crate) struct ConsoleThread {
    console: ConsoleSender,
    reader_gone: Arc<Notify>,
    done: oneshot::Receiver<Written>,
}

impl ConsoleThread {
    /// Starts the thread.
    pub(crate) fn start(files: OutputFiles) -> Result<Self> {
        let console = Console::open().map_err(Error::system("open the console"))?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (finished, done) = oneshot::channel();
        let reader_gone = Arc::new(Notify::new());
        let writer = ConsoleWriter {
            console: Some(console),
            files,
            reader_gone: Arc::clone(&reader_gone),
        };
        // Never joined: it may be stuck in a write for ever, and then ends with the process.
        thread::Builder::new()
            .name("hvd-console".to_owned())
            .spawn(move || finished.send(writer.run(receiver)))
            .map_err(Error::system("start the console thread"))?;
        Ok(Self {
            console: ConsoleSender(sender),
            reader_gone,
            done,
        })
    }

    /// A way to the console.
    pub(crate) fn sender(&self) -> &ConsoleSender {
        &self.console
    }

    /// Returns when the reader of the console has gone.
    pub(crate) async fn reader_gone(&self) {
        self.reader_gone.notified().await;
    }

    /// Waits until everything said so far is written; all other senders must be gone.
    pub(crate) async fn finish(self) -> Written {
        drop(self.console);
        self.done.await.unwrap_or(Written::Incomplete)
    }
}

struct ConsoleWriter {
    /// Gone once its reader is.
    console: Option<Console<File>>,
    files: OutputFiles,
    reader_gone: Arc<Notify>,
}

impl ConsoleWriter {
    fn run(mut self, mut queue: Receiver<ConsoleMessage>) -> Written {
        while let Some(message) = queue.blocking_recv() {
            match message {
                ConsoleMessage::Output {
                    rank,
                    stream,
                    bytes,
                } => {
                    self.write(stream, &bytes);
                    if let Some(notice) = self.files.write(rank.index(), stream, &bytes) {
                        self.write_line(&notice);
                    }
                }
                ConsoleMessage::Line(lines) => self.write(Stream::Stderr, lines.as_bytes()),
            }
        }
        self.report_losses()
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let Some(console) = &mut self.console else {
            return;
        };
        let attempt = console.write(stream, bytes);
        if attempt.is_closed {
            tracing::debug!("the reader of the console has gone");
            self.console = None;
            self.reader_gone.notify_one();
        } else if let Some(notice) = attempt.notice {
            self.write_line(&notice);
        }
    }

    /// Says a line of the launcher's own. That this very line is lost is not worth another one.
    fn write_line(&mut self, line: &str) {
        let line = format!("{}{line}\n", messages::SPEAKER);
        if let Some(console) = &mut self.console {
            console.write(Stream::Stderr, line.as_bytes());
        }
    }

    /// Says how much was lost in all.
    fn report_losses(&mut self) -> Written {
        let mut summaries = self.files.summaries();
        if let Some(console) = &self.console {
            summaries.extend(console.summaries());
        }
        for summary in &summaries {
            self.write_line(summary);
        }
        let console = self.console.as_ref().is_none_or(Console::is_complete);
        if console && self.files.is_complete() {
            Written::Complete
        } else {
            Written::Incomplete
        }
    }
}
