//! Quoting for a shell that is not known: the login shell of another host may be sh, bash, zsh,
//! csh or fish, and one line must mean the same to all of them.

/// Makes one word of `text` for any of these shells.
///
/// Single quotes hold everything except three characters, which stand outside of them behind a
/// backslash: `'` ends quotes, `!` recalls history in csh even inside them, and `\` is an escape
/// inside them in fish. A line feed has no form that csh and the others share (csh refuses it), so
/// callers keep it out; the others read it as it is.
pub(crate) fn quote(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@,+".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = String::from("'");
    for character in text.chars() {
        if matches!(character, '\'' | '!' | '\\') {
            quoted.push_str("'\\");
            quoted.push(character);
            quoted.push('\'');
        } else {
            quoted.push(character);
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// What `shell` makes of the words when they follow a command; nothing if it is not installed.
    fn through(shell: &str, words: &[String]) -> Option<Vec<u8>> {
        let words: Vec<_> = words.iter().map(|word| quote(word)).collect();
        let line = format!(
            "exec /bin/sh -c {} x {}",
            quote("printf '<%s>' \"$@\""),
            words.join(" ")
        );
        let output = Command::new(shell).arg("-c").arg(line).output().ok()?;
        Some(output.stdout)
    }

    #[test]
    fn plain_words_stay_readable() {
        assert_eq!(quote("/usr/bin/python3.11"), "/usr/bin/python3.11");
        assert_eq!(quote("root@fd00::2"), "root@fd00::2");
        assert_eq!(quote("[hostb]:12345"), "'[hostb]:12345'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("~/x"), "'~/x'");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Every shell of the list that is here; sh always is. Many words in few cases, because
        /// each case starts six shells.
        #[test]
        fn any_words_reach_any_shell_unchanged(
            words in proptest::collection::vec("[ -~éß∀\t]{0,12}|['!\\\\$`\"]{0,6}", 1..40)
        ) {
            let expected = format!("<{}>", words.join("><"));
            for shell in ["sh", "bash", "zsh", "csh", "tcsh", "fish"] {
                if let Some(found) = through(shell, &words) {
                    prop_assert_eq!(
                        String::from_utf8_lossy(&found), expected.as_str(), "{}", shell
                    );
                } else {
                    prop_assert_ne!(shell, "sh");
                }
            }
        }
    }
}
