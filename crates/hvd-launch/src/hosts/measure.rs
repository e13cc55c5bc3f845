//! What a host finds out for the driver about itself and the way to others: which addresses answer,
//! how much gets through to one, what the programs here know. Each runs on threads of its own and
//! returns at once; results go to a callback. Agents do this on the driver's request, and the
//! driver does it for its own host.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hvd_rendezvous::JobKey;

use super::{
    facts::{Extra, Question, thorough},
    probe::{ProbeFailure, ProbeTarget, bandwidth, probe},
};
use crate::process::{ReapedBy, spawn_detached};

/// How long one address may take.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Addresses tried at the same time by one host.
const AT_ONCE: usize = 64;

/// Tries addresses, each for [`PROBE_TIMEOUT`], and reports the answers one by one. Returns at
/// once.
pub(crate) fn probe_all(
    targets: Vec<ProbeTarget>,
    key: &JobKey,
    on_result: impl Fn(ProbeTarget, Result<Duration, ProbeFailure>) + Clone + Send + 'static,
) {
    let threads = targets.len().min(AT_ONCE);
    let queue = Arc::new(Mutex::new(targets));
    for _ in 0..threads {
        let (queue, key, on_result) = (Arc::clone(&queue), key.clone(), on_result.clone());
        spawn_detached("hvd-probe", move || {
            let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
            while let Some(target) = next() {
                on_result(
                    target,
                    probe(target.address, &key, target.host, PROBE_TIMEOUT),
                );
            }
        });
    }
}

/// How long one way is measured, and how long it may take if it is very slow.
const LOAD: Duration = Duration::from_secs(1);
const LOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// By then a host has reported how much gets through, or will not.
pub(crate) const LOADED: Duration = Duration::from_secs(6);

/// Measures how much gets through to an address, and reports it. Returns at once.
pub(crate) fn load(
    target: ProbeTarget,
    key: &JobKey,
    on_result: impl FnOnce(Result<f64, ProbeFailure>) + Send + 'static,
) {
    let key = key.clone();
    spawn_detached("hvd-load", move || {
        on_result(bandwidth(target.address, &key, LOAD, LOAD_TIMEOUT));
    });
}

/// By then a host's programs have reported what they know, or will not.
pub(crate) const LOOKED: Duration = Duration::from_secs(8);

/// Asks the programs of this host, and reports. Returns at once.
pub(crate) fn look(
    question: Question,
    reaped_by: ReapedBy,
    on_result: impl FnOnce(Extra) + Send + 'static,
) {
    spawn_detached("hvd-look", move || {
        on_result(thorough(&question, &reaped_by));
    });
}
