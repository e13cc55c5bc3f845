//! The token by which `horovodrun --agents` and `horovodrun agent` recognise each other. It is
//! made, never chosen: an attacker who records a handshake can try guesses against it offline, so
//! only a secret that cannot be guessed will do.
//!
//! ```text
//! hvd-agent-xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx
//! ```
//!
//! The 56 letters are base 32 (a to z and 2 to 7) of 32 random bytes and of the first 3 bytes of
//! their hash, by which a typing mistake is found. Hyphens and the case of letters do not matter.

use std::{fmt, str::FromStr};

use ring::digest;

use crate::{JobKey, Result};

/// What every token begins with.
const PREFIX: &str = "hvd-agent-";

/// The digits, each worth 5 bits.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Random bytes.
const SECRET: usize = 32;

/// Bytes of the checksum.
const CHECKSUM: usize = 3;

/// Letters between two hyphens.
const GROUP: usize = 8;

/// A secret that a driver and its agents share.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentToken([u8; SECRET]);

/// Why a text is no token. Never shows the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It was made by hand or by another program.
    #[error(
        "is not a token of `horovodrun agent --new-token`, and another secret could be guessed"
    )]
    Foreign,
    /// It was a token once.
    #[error("has a typing mistake: letters are wrong, missing or too many")]
    Mistyped,
}

impl AgentToken {
    /// A fresh token from the system's source of random bytes.
    pub fn generate() -> Result<Self> {
        let mut bytes = [0; SECRET];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The form in which people copy it.
    pub fn to_text(&self) -> String {
        let mut bytes = self.0.to_vec();
        bytes.extend(checksum(&self.0));
        let groups: Vec<String> = encode(&bytes)
            .as_bytes()
            .chunks(GROUP)
            .map(|group| String::from_utf8_lossy(group).into_owned())
            .collect();
        format!("{PREFIX}{}", groups.join("-"))
    }

    /// The key of the conversations in which the token is what both sides know.
    pub fn key(&self) -> JobKey {
        JobKey::from_token(&self.0)
    }
}

impl FromStr for AgentToken {
    type Err = TokenError;

    fn from_str(text: &str) -> std::result::Result<Self, TokenError> {
        let text = text.trim().to_ascii_lowercase();
        let digits = text.strip_prefix(PREFIX).ok_or(TokenError::Foreign)?;
        let digits: Vec<u8> = digits.bytes().filter(|&byte| byte != b'-').collect();
        let bytes = decode(&digits).ok_or(TokenError::Mistyped)?;
        let (secret, check) = bytes
            .split_first_chunk::<SECRET>()
            .ok_or(TokenError::Mistyped)?;
        if check != checksum(secret) {
            return Err(TokenError::Mistyped);
        }
        Ok(Self(*secret))
    }
}

impl fmt::Debug for AgentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentToken(secret)")
    }
}

fn checksum(secret: &[u8; SECRET]) -> [u8; CHECKSUM] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(b"hvd agent token checksum");
    context.update(secret);
    let hash = context.finish();
    std::array::from_fn(|index| hash.as_ref()[index])
}

/// Base 32 of a number of bytes that 5 divides.
fn encode(bytes: &[u8]) -> String {
    let digit = |group: u64, place: u32| DIGITS[(group >> (5 * place) & 31) as usize];
    let groups = bytes.chunks(5).map(|chunk| {
        chunk
            .iter()
            .fold(0, |group, &byte| group << 8 | u64::from(byte))
    });
    groups
        .flat_map(|group| {
            (0..8)
                .rev()
                .map(move |place| char::from(digit(group, place)))
        })
        .collect()
}

/// The bytes of a whole number of groups of 8 digits.
fn decode(digits: &[u8]) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(8) {
        return None;
    }
    let mut bytes = Vec::new();
    for chunk in digits.chunks(8) {
        let mut group: u64 = 0;
        for byte in chunk {
            let value = DIGITS.iter().position(|digit| digit == byte)?;
            group = group << 5 | value as u64;
        }
        bytes.extend_from_slice(&group.to_be_bytes()[3..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> std::result::Result<AgentToken, TokenError> {
        text.parse()
    }

    #[test]
    fn a_token_is_long_random_and_readable() {
        let (one, other) = (
            AgentToken::generate().unwrap(),
            AgentToken::generate().unwrap(),
        );
        assert_ne!(one, other);
        let text = one.to_text();
        assert_eq!(text.len(), PREFIX.len() + 56 + 6, "{text}");
        assert!(text.starts_with("hvd-agent-") && !text.contains(char::is_whitespace));
        assert_eq!(read(&text).as_ref(), Ok(&one));
        assert_eq!(
            read(&format!(" {}\n", text.to_uppercase())).as_ref(),
            Ok(&one)
        );
        let bare = format!("{PREFIX}{}", text[PREFIX.len()..].replace('-', ""));
        assert_eq!(read(&bare).as_ref(), Ok(&one));
        assert_eq!(format!("{one:?}"), "AgentToken(secret)");
        assert_ne!(one.key().to_hex(), other.key().to_hex());
    }

    #[test]
    fn the_form_of_a_token_stays_as_it_is() {
        let token = AgentToken(std::array::from_fn(|index| u8::try_from(index).unwrap()));
        assert_eq!(
            token.to_text(),
            "hvd-agent-aaaqeaye-audaocaj-bifqydio-b4ibceqt-cqkrmfyy-denbwha5-dyp4fawt"
        );
    }

    #[test]
    fn secrets_of_another_making_are_refused() {
        for text in [
            "",
            "secret",
            "correct horse battery staple",
            &"0123456789abcdef".repeat(4),
            "hvd-agen-aaaa",
        ] {
            assert_eq!(read(text), Err(TokenError::Foreign), "{text}");
        }
        for text in ["hvd-agent-", "hvd-agent-aaaaaaaa", "hvd-agent-secret"] {
            assert_eq!(read(text), Err(TokenError::Mistyped), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_wrong_missing_or_exchanged_letter_is_found(
            secret: [u8; SECRET], place in 0_usize..56, digit in 0_usize..32,
        ) {
            let text = AgentToken(secret).to_text();
            let digits = text[PREFIX.len()..].replace('-', "");
            let wrong = |digits: &[u8]| {
                read(&format!("{PREFIX}{}", String::from_utf8_lossy(digits))).map(|token| token.0)
            };
            let mut changed = digits.clone().into_bytes();
            let mut shorter = changed.clone();
            let mut exchanged = changed.clone();
            changed[place] = DIGITS[digit];
            shorter.remove(place);
            exchanged.swap(place, (place + 1) % 56);
            for text in [changed, exchanged] {
                let expected = if text == digits.as_bytes() { Ok(secret) } else { Err(TokenError::Mistyped) };
                prop_assert_eq!(wrong(&text), expected);
            }
            prop_assert_eq!(wrong(&shorter), Err(TokenError::Mistyped));
        }

        #[test]
        fn no_text_breaks_the_reader(text in any::<String>(), rest in "[-a-z2-7]{0,80}") {
            prop_assert!(read(&text).is_err());
            let _ = read(&format!("{PREFIX}{rest}"));
        }
    }
}
