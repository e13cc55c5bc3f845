//! Forwards one stream of one worker: reads it, prefixes lines, hands them to the console thread,
//! and keeps the last lines.

use std::time::{SystemTime, UNIX_EPOCH};

use hvd_types::Rank;

use super::{
    console_thread::ConsoleSender,
    pipe::PipeReader,
    prefixer::{Prefixer, stamp},
    tail::Tail,
};
use crate::{link::ChannelReceiver, process::Stream, spec::Stamp};

/// Where a worker's output comes from.
pub(crate) enum OutputSource {
    /// A worker on this host.
    Pipe(PipeReader),
    /// A worker on another host.
    Channel(ChannelReceiver),
}

/// One stream of one worker on its way.
pub(crate) struct Forwarder {
    rank: Rank,
    stream: Stream,
    console: ConsoleSender,
    stamp: Stamp,
    prefixer: Prefixer,
    tail: Tail,
}

impl Forwarder {
    /// A forwarder of one stream.
    pub(crate) fn new(rank: Rank, stream: Stream, console: ConsoleSender, stamp: Stamp) -> Self {
        let prefixer = Prefixer::new(rank, stream);
        Self {
            rank,
            stream,
            console,
            stamp,
            prefixer,
            tail: Tail::default(),
        }
    }

    /// Forwards until the end and returns the last lines.
    pub(crate) async fn run(mut self, source: OutputSource) -> Vec<String> {
        match source {
            OutputSource::Pipe(mut pipe) => {
                while let Some(bytes) = pipe.next().await {
                    self.take(bytes).await;
                }
            }
            OutputSource::Channel(mut channel) => {
                while let Some(bytes) = channel.receive().await {
                    self.take(&bytes).await;
                }
            }
        }
        let mut lines = Vec::new();
        self.prefixer.finish(&self.now(), &mut lines);
        self.send(lines).await;
        self.tail.into_lines()
    }

    async fn take(&mut self, bytes: &[u8]) {
        if self.stream == Stream::Stderr {
            self.tail.push(bytes);
        }
        let mut lines = Vec::with_capacity(bytes.len() + bytes.len() / 4);
        self.prefixer.push(bytes, &self.now(), &mut lines);
        self.send(lines).await;
    }

    async fn send(&self, lines: Vec<u8>) {
        if !lines.is_empty() {
            self.console.output(self.rank, self.stream, lines).await;
        }
    }

    fn now(&self) -> String {
        if self.stamp == Stamp::Without {
            return String::new();
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        stamp(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
    }
}
