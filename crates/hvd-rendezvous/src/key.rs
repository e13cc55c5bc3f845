//! The secret of one job. The launcher makes it; every process of the job proves that it has it.
//! Owns the text form in which it reaches workers; never shows it in a log or an error.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use ring::hmac;

use crate::{Error, Result};

/// 32 random bytes known to the processes of one job only.
///
/// Workers get it as hexadecimal digits, in the file that `HOROVOD_SECRET_KEY_FILE` names or in the
/// environment variable `_HOROVOD_SECRET_KEY`.
#[derive(Clone)]
pub struct JobKey([u8; JobKey::LENGTH]);

impl JobKey {
    /// Bytes in a key.
    pub const LENGTH: usize = 32;

    /// A fresh key from the system's source of random bytes.
    pub fn generate() -> Result<Self> {
        let mut bytes = [0; Self::LENGTH];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Reads the form that [`Self::to_hex`] writes.
    pub fn from_hex(text: &str) -> Result<Self> {
        let text = text.trim().as_bytes();
        if text.len() != 2 * Self::LENGTH {
            return Err(Error::MalformedKey);
        }
        let mut bytes = [0; Self::LENGTH];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }

    /// Reads a file that holds what [`Self::to_hex`] writes.
    pub fn from_file(path: &Path) -> Result<Self> {
        // A file that is longer is another one; it need not be read to its end to know that.
        const LIMIT: u64 = 1024;
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LIMIT).read_to_end(&mut text))
            .map_err(|source| Error::UnreadableKey {
                path: path.to_owned(),
                source,
            })?;
        let text = String::from_utf8_lossy(&text);
        Self::from_hex(&text).map_err(|_| Error::MalformedKeyFile {
            path: path.to_owned(),
        })
    }

    /// The key that belongs to the random bytes of a token.
    pub(crate) fn from_token(secret: &[u8; Self::LENGTH]) -> Self {
        Self(hash(secret, b"hvd agent token", b""))
    }

    /// A key for one job, from this one and a number that is used once. A process that knows only
    /// the number knows nothing of the key, so the number may be sent in the open.
    #[must_use]
    pub fn derive(&self, nonce: &[u8]) -> Self {
        Self(hash(&self.0, b"hvd job key", nonce))
    }

    /// The key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        digits
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .collect()
    }

    pub(crate) fn bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

fn hash(key: &[u8; JobKey::LENGTH], label: &[u8], text: &[u8]) -> [u8; JobKey::LENGTH] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    context.update(label);
    context.update(&[0]);
    context.update(text);
    let mut made = [0; JobKey::LENGTH];
    made.copy_from_slice(context.sign().as_ref());
    made
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(secret)")
    }
}

fn digit(character: u8) -> Result<u8> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        b'A'..=b'F' => Ok(character - b'A' + 10),
        _ => Err(Error::MalformedKey),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_environment() {
        let key = JobKey::generate().unwrap();
        let hex = key.to_hex();
        assert_eq!(JobKey::from_hex(&hex).unwrap().bytes(), key.bytes());
        assert_eq!(
            JobKey::from_hex(&hex.to_uppercase()).unwrap().bytes(),
            key.bytes()
        );
        assert_ne!(JobKey::generate().unwrap().bytes(), key.bytes());
    }

    #[test]
    fn damaged_text_is_refused_without_showing_it() {
        let hex = JobKey::generate().unwrap().to_hex();
        for text in [
            "",
            &hex[1..],
            &format!("{hex}0"),
            &hex.replace(&hex[3..4], "g"),
        ] {
            let error = JobKey::from_hex(text).unwrap_err();
            assert!(matches!(error, Error::MalformedKey), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_holds_a_key_or_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let error = JobKey::from_file(&path).unwrap_err().to_string();
        let named = format!("HOROVOD_SECRET_KEY_FILE=`{}`", path.display());
        assert!(
            error.contains(&named) && error.contains("No such file"),
            "{error}"
        );

        let key = JobKey::generate().unwrap();
        std::fs::write(&path, format!("{}\n", key.to_hex())).unwrap();
        assert_eq!(JobKey::from_file(&path).unwrap().bytes(), key.bytes());

        let long = key.to_hex().repeat(100);
        for damaged in [
            &b""[..],
            &key.to_hex().as_bytes()[1..],
            long.as_bytes(),
            &[0xff; 64],
        ] {
            std::fs::write(&path, damaged).unwrap();
            let error = JobKey::from_file(&path).unwrap_err();
            assert!(matches!(error, Error::MalformedKeyFile { .. }), "{error:?}");
            assert!(error.to_string().contains(&named), "{error}");
            assert!(!error.to_string().contains(&key.to_hex()[1..]), "{error}");
        }
    }

    #[test]
    fn a_token_and_a_number_make_one_key_and_no_other() {
        let (one, other) = ([1; JobKey::LENGTH], [2; JobKey::LENGTH]);
        let key = |secret, nonce: &[u8]| *JobKey::from_token(secret).derive(nonce).bytes();
        assert_eq!(key(&one, b"1"), key(&one, b"1"));
        assert_ne!(key(&one, b"1"), key(&one, b"2"));
        assert_ne!(key(&one, b"1"), key(&other, b"1"));
        let token = JobKey::from_token(&one);
        assert_ne!(token.bytes(), token.derive(b"").bytes());
        assert_ne!(token.bytes(), &one, "the secret itself is never a key");
    }

    #[test]
    fn debug_keeps_the_secret() {
        assert_eq!(
            format!("{:?}", JobKey::generate().unwrap()),
            "JobKey(secret)"
        );
    }
}
