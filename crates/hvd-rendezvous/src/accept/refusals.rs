//! Logs refused connections: the first at once, then at most a line a minute with their number, so
//! that a flood of connections does not flood the log. Also for ports without an [`super::Acceptor`].

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;

/// How often a line is written.
const INTERVAL: Duration = Duration::from_secs(60);

/// What connections to a port are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// That they know the job key.
    JobKey,
    /// That they come from the user of the job, or root.
    User,
}

impl Proof {
    /// What a refused connection did.
    fn failure(self) -> &'static str {
        match self {
            Self::JobKey => "did not prove the job's key",
            Self::User => "came from another user",
        }
    }

    /// What the connections have not done that make room for others.
    fn pending(self) -> &'static str {
        match self {
            Self::JobKey => "proved the job's key",
            Self::User => "asked",
        }
    }
}

/// The counts of one listening port.
#[derive(Debug)]
pub struct Refusals {
    name: &'static str,
    proof: Proof,
    refused: Mutex<Count>,
    shortages: Mutex<Count>,
}

/// What has happened since the last line.
#[derive(Debug, Default)]
struct Count {
    number: u64,
    /// What the last one was.
    last: String,
    reported: Option<Instant>,
}

impl Count {
    /// Notes one more; returns how many there were if it is time for a line.
    fn add(&mut self, what: String, now: Instant) -> Option<u64> {
        self.number += 1;
        self.last = what;
        let is_due = self
            .reported
            .is_none_or(|before| now.saturating_duration_since(before) >= INTERVAL);
        is_due.then(|| {
            self.reported = Some(now);
            std::mem::take(&mut self.number)
        })
    }
}

impl Refusals {
    /// None yet, at the port called `name`, whose connections are asked for `proof`.
    pub fn new(name: &'static str, proof: Proof) -> Self {
        let (refused, shortages) = Default::default();
        Self {
            name,
            proof,
            refused,
            shortages,
        }
    }

    /// A connection from `peer` did not give its proof.
    pub fn refuse(&self, peer: &str, error: &Error) {
        tracing::debug!(%error, "a connection from {peer} to {} was refused", self.name);
        if is_silent(error) {
            return;
        }
        let what = format!("{peer}: {error}");
        if let Some(number) = count(&self.refused, what.clone()) {
            tracing::warn!("{}", self.refused(number, &what));
        }
    }

    /// A connection could not be accepted.
    pub fn shortage(&self, error: &Error) {
        if let Some(number) = count(&self.shortages, error.to_string()) {
            tracing::warn!(
                "{}: {number} times a connection could not be accepted, and others that have not \
                 {} were dropped to make room: {error}",
                self.name,
                self.proof.pending()
            );
        }
    }

    fn refused(&self, number: u64, last: &str) -> String {
        let (connections, the_last) = match number {
            1 => ("connection", ""),
            _ => ("connections", "the last one "),
        };
        let (name, failure) = (self.name, self.proof.failure());
        format!(
            "{name}: {number} {connections} {failure} and could do nothing; {the_last}from {last}"
        )
    }
}

/// The rest, at the end of the acceptor.
impl Drop for Refusals {
    fn drop(&mut self) {
        let refused = self.refused.get_mut();
        let count = std::mem::take(refused.unwrap_or_else(PoisonError::into_inner));
        if count.number > 0 {
            tracing::warn!("{}", self.refused(count.number, &count.last));
        }
    }
}

fn count(count: &Mutex<Count>, what: String) -> Option<u64> {
    let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
    count.add(what, Instant::now())
}

/// A connection that ended without a byte: a port scan or a health check, not an attempt.
fn is_silent(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_minute_with_its_number() {
        let (mut count, start) = (Count::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(count.add("a".into(), at(0)), Some(1));
        for _ in 0..1000 {
            assert_eq!(count.add("b".into(), at(59)), None);
        }
        assert_eq!(count.add("c".into(), at(60)), Some(1001));
        assert_eq!(count.add("d".into(), at(61)), None);
    }

    #[test]
    fn a_line_tells_number_and_address() {
        let store = Refusals::new("hvd-store", Proof::JobKey);
        assert_eq!(
            store.refused(1, "192.0.2.7: wrong"),
            "hvd-store: 1 connection did not prove the job's key and could do nothing; from \
             192.0.2.7: wrong"
        );
        assert!(store.refused(2, "x").contains("2 connections did"));
        let debug = Refusals::new("hvd-debug", Proof::User);
        assert_eq!(
            debug.refused(3, "user 7: wrong"),
            "hvd-debug: 3 connections came from another user and could do nothing; the last one \
             from user 7: wrong"
        );
    }
}
