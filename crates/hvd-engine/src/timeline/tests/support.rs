//! A clock to set by hand, a directory that goes away, and a medium with little room.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::timeline::clock::Clock;
use crate::timeline::file::Medium;

/// A clock that moves when it is told to.
#[derive(Clone)]
pub(super) struct FakeClock {
    base: Instant,
    micros: Arc<AtomicU64>,
}

impl FakeClock {
    pub(super) fn new() -> Self {
        Self {
            base: Instant::now(),
            micros: Arc::default(),
        }
    }

    pub(super) fn advance(&self, micros: u64) {
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        self.base + self.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + self.elapsed()
    }
}

/// A directory that is removed at the end of a test.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hvd-timeline-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file in memory on a disk of limited size.
pub(super) struct Memory {
    pub(super) bytes: Vec<u8>,
    /// Where each write began and ended.
    pub(super) writes: Vec<(usize, usize)>,
    room: usize,
}

impl Memory {
    pub(super) fn with_room(room: usize) -> Self {
        Self {
            bytes: Vec::new(),
            writes: Vec::new(),
            room,
        }
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }
}

impl Medium for &mut Memory {
    fn write_at(&mut self, data: &[u8], position: usize) -> io::Result<()> {
        let end = (position + data.len()).min(self.room);
        let count = end.saturating_sub(position);
        let length = self.bytes.len().max(end);
        self.bytes.resize(length, 0);
        self.bytes[position..position + count].copy_from_slice(&data[..count]);
        self.writes.push((position, position + data.len()));
        if count < data.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn truncate(&mut self, length: usize) -> io::Result<()> {
        self.bytes.truncate(length);
        Ok(())
    }
}
