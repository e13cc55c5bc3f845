//! Python objects that ranks send each other as tensors, and unpickle: nothing may be unpickled that
//! a rank of this job has not sent for just this purpose, also where tensors travel in the open.
//!
//! Every object carries HMAC-SHA256, under a key that only this session of the job has, over what the
//! object is for:
//!
//! ```text
//! length of scope u32 | scope | number u32 | rank u32, all little endian | the object
//! ```
//!
//! The scope names the operation, and the number counts its uses: an object that was recorded before
//! is none that is expected now. All ranks of an operation count alike, because each of them
//! completes it or none does.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hvd_types::Rank;
use ring::{digest, hmac};

use crate::JobKey;

/// Bytes of a tag.
pub const TAG: usize = 32;

/// What signs and checks the objects of one session.
#[derive(Debug)]
pub struct ObjectSeal {
    key: hmac::Key,
    /// How often a scope was used, by its hash: programs may use any number of names.
    used: Mutex<HashMap<u64, u32>>,
}

impl ObjectSeal {
    /// For the session of the job behind `key` that all its ranks call `session`.
    pub fn new(key: &JobKey, session: &str) -> Self {
        let secret = key.derive(format!("objects of {session}").as_bytes());
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.bytes()),
            used: Mutex::default(),
        }
    }

    fn used(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a tag is made over, before the object.
    fn purpose(&self, scope: &str, rank: Rank) -> Vec<u8> {
        let number = self.used().get(&hash(scope)).copied().unwrap_or_default();
        let length = u32::try_from(scope.len()).unwrap_or(u32::MAX);
        let mut purpose = length.to_le_bytes().to_vec();
        purpose.extend(scope.as_bytes());
        purpose.extend(number.to_le_bytes());
        purpose.extend(rank.number().to_le_bytes());
        purpose
    }

    /// The tag of an object that `rank` sends.
    pub fn sign(&self, scope: &str, rank: Rank, object: &[u8]) -> [u8; TAG] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&self.purpose(scope, rank));
        context.update(object);
        let mut tag = [0; TAG];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }

    /// Whether `rank` has sent this object for the present use of `scope`.
    pub fn is_genuine(&self, scope: &str, rank: Rank, object: &[u8], tag: &[u8]) -> bool {
        let whole = [&self.purpose(scope, rank)[..], object].concat();
        hmac::verify(&self.key, &whole, tag).is_ok()
    }

    /// The operation is complete; its next use is another.
    pub fn advance(&self, scope: &str) {
        let mut used = self.used();
        let number = used.entry(hash(scope)).or_default();
        *number = number.wrapping_add(1);
    }
}

fn hash(scope: &str) -> u64 {
    let digest = digest::digest(&digest::SHA256, scope.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_ref()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Rank = Rank::new(1);

    #[test]
    fn an_object_counts_for_its_purpose_and_its_moment_only() {
        let key = JobKey::generate().unwrap();
        let (ours, theirs) = (ObjectSeal::new(&key, "0"), ObjectSeal::new(&key, "0"));
        let tag = ours.sign("a", ONE, b"object");
        assert!(theirs.is_genuine("a", ONE, b"object", &tag));
        assert!(!theirs.is_genuine("a", ONE, b"0bject", &tag), "changed");
        assert!(!theirs.is_genuine("b", ONE, b"object", &tag), "another use");
        assert!(
            !theirs.is_genuine("a", Rank::new(2), b"object", &tag),
            "another's"
        );
        assert!(!theirs.is_genuine("a", ONE, b"object", &tag[1..]), "cut");
        assert!(!ObjectSeal::new(&key, "1").is_genuine("a", ONE, b"object", &tag));
        let stranger = JobKey::generate().unwrap();
        assert!(!ObjectSeal::new(&stranger, "0").is_genuine("a", ONE, b"object", &tag));
        theirs.advance("a");
        assert!(!theirs.is_genuine("a", ONE, b"object", &tag), "used before");
        ours.advance("a");
        let next = ours.sign("a", ONE, b"object");
        assert!(theirs.is_genuine("a", ONE, b"object", &next));
    }
}
