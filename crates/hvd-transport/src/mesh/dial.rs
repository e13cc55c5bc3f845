//! Makes many connections at a time: each takes a few round trips and the other rank's attention,
//! which may be busy with others, so that one after the other they would add up.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::{Error, Result};

/// How many are made at a time. The other ranks do the same, so more would only wait in line.
const AT_A_TIME: usize = 16;

/// Makes a connection for each of `keys` and returns them in their order, or the first error.
pub(super) fn all<K: Sync, T: Send>(
    keys: &[K],
    make: impl Fn(&K) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if keys.len() < 2 {
        return keys.iter().map(make).collect();
    }
    let work = Work {
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        made: Mutex::new(Vec::with_capacity(keys.len())),
    };
    thread::scope(|scope| {
        for number in 1..keys.len().min(AT_A_TIME) {
            let name = format!("hvd-dial-{number}");
            // One thread less only takes longer.
            let _ = thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, || work.share(keys, &make));
        }
        work.share(keys, &make);
    });
    let mut made = work
        .made
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    made.sort_unstable_by_key(|&(index, _)| index);
    let made: Vec<T> = made
        .into_iter()
        .map(|(_, outcome)| outcome)
        .collect::<Result<_>>()?;
    if made.len() < keys.len() {
        let text = "a thread that connects to other ranks did not end well";
        return Err(Error::Bootstrap(text.to_owned()));
    }
    Ok(made)
}

struct Work<T> {
    next: AtomicUsize,
    /// Nobody begins another connection once one has failed.
    failed: AtomicBool,
    /// With their places among the keys.
    made: Mutex<Vec<(usize, Result<T>)>>,
}

impl<T> Work<T> {
    fn share<K>(&self, keys: &[K], make: impl Fn(&K) -> Result<T>) {
        while !self.failed.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(key) = keys.get(index) else {
                return;
            };
            let outcome = make(key);
            if outcome.is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            made.push((index, outcome));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_their_keys() {
        let keys: Vec<usize> = (0..100).collect();
        let made = all(&keys, |&key| Ok(2 * key)).unwrap();
        assert!(made.into_iter().eq((0..100).map(|key| 2 * key)));
        assert!(all(&[0; 0], |_| Ok(())).unwrap().is_empty());
    }

    #[test]
    fn an_error_ends_it() {
        let keys: Vec<usize> = (0..100).collect();
        let fail = |&key: &usize| match key {
            40.. => Err(Error::Bootstrap(format!("no {key}"))),
            key => Ok(key),
        };
        let error = all(&keys, fail).unwrap_err().to_string();
        assert!(error.starts_with("cannot connect"), "{error}");
    }
}
