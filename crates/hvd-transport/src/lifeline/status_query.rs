//! Asking other ranks for their snapshots. Query and answer travel on the lifelines, whose thread
//! answers even while a rank's engine is in the middle of an operation or its program is stuck. The
//! transport does not know the contents of an answer: it is bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hvd_rendezvous::deadline;
use hvd_types::Rank;

use super::{CommandQueue, Lifeline, WatcherCommand};

/// The largest answer, in bytes.
pub const MAX_ANSWER_BYTES: usize = 60 * 1024;

/// Takes a rank's snapshot. Called on the thread of the lifelines, so it must be quick and must not
/// wait for another thread or rank.
#[derive(Clone)]
pub struct SnapshotSource(Arc<dyn Fn() -> Vec<u8> + Send + Sync>);

impl SnapshotSource {
    /// A source that answers with what `take` returns, or with nothing if that is longer than
    /// [`MAX_ANSWER_BYTES`].
    pub fn new(take: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// The answer to a query.
    pub fn take(&self) -> Vec<u8> {
        let answer = (self.0)();
        if answer.len() > MAX_ANSWER_BYTES {
            return Vec::new();
        }
        answer
    }
}

impl fmt::Debug for SnapshotSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnapshotSource")
    }
}

/// Where an answer goes.
pub(super) type Reply = mpsc::Sender<(Rank, Vec<u8>)>;

/// Queries ranks. Rank 0 reaches all others, they reach rank 0 only.
#[derive(Debug, Clone)]
pub struct StatusQuery {
    me: Rank,
    source: SnapshotSource,
    /// None in a job of one rank.
    commands: Option<Arc<CommandQueue>>,
    last: Arc<AtomicU32>,
}

impl StatusQuery {
    /// From now on `source` answers here, and this rank, `me`, may query others.
    pub fn open(me: Rank, lifeline: Option<&Lifeline>, source: SnapshotSource) -> Self {
        let commands = lifeline.map(|lifeline| Arc::clone(&lifeline.commands));
        if let Some(commands) = &commands {
            // The first source stays; there is one engine to a mesh.
            let _ = commands.source.set(source.clone());
        }
        Self {
            me,
            source,
            commands,
            last: Arc::default(),
        }
    }

    /// Queries `ranks` and waits until all have answered or `timeout` has passed. Ranks that have
    /// not answered by then are left out.
    pub fn ask(&self, ranks: &[Rank], timeout: Duration) -> BTreeMap<Rank, Vec<u8>> {
        let end = deadline::after(timeout);
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (reply, inbox) = mpsc::channel();
        let others: Vec<Rank> = ranks.iter().copied().filter(|&it| it != self.me).collect();
        let mut waiting = others.len();
        let mut answers = BTreeMap::new();
        if let Some(commands) = &self.commands {
            commands.push(WatcherCommand::Ask {
                number,
                ranks: others,
                reply,
            });
        }
        if ranks.contains(&self.me) {
            answers.insert(self.me, self.source.take());
        }
        while waiting > 0 {
            let left = end.saturating_duration_since(Instant::now());
            let Ok((rank, answer)) = inbox.recv_timeout(left) else {
                break;
            };
            answers.insert(rank, answer);
            waiting -= 1;
        }
        if let Some(commands) = &self.commands {
            commands.push(WatcherCommand::Forget(number));
        }
        answers
    }
}
