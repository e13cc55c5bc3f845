//! Text of others, made safe to print. Names, exceptions and output of one rank are quoted in the
//! errors of other ranks and in the launcher's reports; a control character in them would reach a
//! terminal far from where it was written, clear it, rename it or hide a line.

use std::{borrow::Cow, fmt::Write as _};

/// The text with every control character in it written out, `\x1b` for escape. Line ends and
/// tabs stay; a carriage return, which would overwrite its line, does not. Nor do the characters
/// that change the direction in which text is shown.
pub fn printable(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_unsafe) else {
        return Cow::Borrowed(text);
    };
    let (start, rest) = text.split_at(first);
    let mut safe = start.to_owned();
    for character in rest.chars() {
        if is_unsafe(character) {
            let code = u32::from(character);
            let _ = match code {
                0..=0xff => write!(safe, "\\x{code:02x}"),
                _ => write!(safe, "\\u{code:04x}"),
            };
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn is_unsafe(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_written_out_and_lines_stay_lines() {
        for (text, safe) in [
            (
                "plain, with \u{e9} and \u{4e2d}\n\tlines",
                "plain, with \u{e9} and \u{4e2d}\n\tlines",
            ),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\x1b[2J\\x1b]0;title\\x07"),
            ("lie\rtruth\u{8}\u{7f}", "lie\\x0dtruth\\x08\\x7f"),
            ("\u{9b}31mred", "\\x9b31mred"),
            ("\u{202e}reversed\u{2069}", "\\u202ereversed\\u2069"),
        ] {
            assert_eq!(printable(text), safe);
        }
    }

    proptest! {
        #[test]
        fn what_is_left_is_harmless_and_what_was_harmless_is_left(text in any::<String>()) {
            let safe = printable(&text);
            prop_assert!(!safe.contains(is_unsafe));
            prop_assert!(safe.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control()));
            prop_assert_eq!(printable(&safe), safe.clone());
            prop_assert_eq!(safe == text, !text.contains(is_unsafe));
            prop_assert_eq!(safe.lines().count(), text.lines().count());
        }

        #[test]
        fn escape_sequences_do_not_survive_anywhere(
            before in any::<String>(),
            control in prop_oneof!["[\\x00-\\x08\\x0b-\\x1f\\x7f]", "[\u{80}-\u{9f}]"],
            after in any::<String>(),
        ) {
            let text = format!("{before}{control}{after}");
            let expected = format!("{}{}{}", printable(&before), printable(&control), printable(&after));
            prop_assert_eq!(printable(&text), expected);
            prop_assert!(!printable(&text).contains(control.as_str()));
        }
    }
}
