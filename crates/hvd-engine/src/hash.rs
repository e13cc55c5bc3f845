//! Tables that every tensor of every step is looked up in, several times.
//!
//! Their keys are names and numbers that the job's own ranks chose, so the hash need not withstand
//! an attacker that looks for collisions, and may be a fast one.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A map that is looked up for each tensor.
pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;

/// A set that is looked up for each tensor.
pub(crate) type FastSet<K> = HashSet<K, RandomState>;
