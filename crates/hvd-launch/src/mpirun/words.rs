//! Splits the text of `--mpi-args` and `--binding-args` into words as a shell would: at blanks, with
//! quotes and backslashes. Nothing is expanded; the shell in which it was typed has done that.

/// A text with a quote that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenQuote;

/// The words of `text`.
pub(crate) fn split(text: &str) -> Result<Vec<String>, OpenQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match character {
            '\'' => quoted(&mut characters, word, '\'')?,
            '"' => quoted(&mut characters, word, '"')?,
            '\\' => word.push(characters.next().ok_or(OpenQuote)?),
            other => word.push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The rest of a quoted part. A backslash protects only inside double quotes, and there only what
/// has a meaning.
fn quoted(
    characters: &mut impl Iterator<Item = char>,
    word: &mut String,
    quote: char,
) -> Result<(), OpenQuote> {
    loop {
        match characters.next().ok_or(OpenQuote)? {
            end if end == quote => return Ok(()),
            '\\' if quote == '"' => {
                let next = characters.next().ok_or(OpenQuote)?;
                if !matches!(next, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(next);
            }
            other => word.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hosts::ssh::quote;

    #[test]
    fn words_are_those_of_a_shell() {
        let split = |text| split(text).unwrap();
        assert_eq!(
            split("  -x A=1\t-mca  btl ^openib "),
            ["-x", "A=1", "-mca", "btl", "^openib"]
        );
        assert_eq!(
            split(r#"-x 'A=b c' "d\"e\f" g\ h ''"#),
            ["-x", "A=b c", "d\"e\\f", "g h", ""]
        );
        assert_eq!(split("$HOME"), ["$HOME"]);
        assert!(split("").is_empty());
    }

    #[test]
    fn an_open_quote_is_refused() {
        for text in ["'a", "\"a", "\"a\\", "a\\"] {
            assert_eq!(split(text), Err(OpenQuote), "{text}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec("[ -~é\t]{0,12}", 0..8)) {
            let line: Vec<String> = words.iter().map(|word| quote(word)).collect();
            prop_assert_eq!(split(&line.join(" ")).unwrap(), words);
        }
    }
}
