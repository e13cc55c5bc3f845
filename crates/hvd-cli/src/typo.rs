//! A first word that is nearly `agent`, `debug`, `doctor` or `wheel`, and no program: a slip of the fingers,
//! for which asking for `-np` would be no help.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use crate::{agent, debug, doctor, wheel};

/// Commands of `horovodrun` that are its first word.
const WORDS: [&str; 4] = [agent::WORD, debug::WORD, doctor::WORD, wheel::WORD];

/// How many letters may be wrong, missing, too many or exchanged.
const SLIPS: usize = 2;

/// What to say about the first word of a command line, if it is a misspelt command.
pub(crate) fn explain(first: &str, environment: &[(OsString, OsString)]) -> Option<String> {
    let meant = nearest(first)?;
    let path = environment.iter().find(|(name, _)| name == "PATH");
    if path.is_some_and(|(_, path)| is_program(first, path)) {
        return None;
    }
    Some(format!(
        "there is no command `{first}`; did you mean `horovodrun {meant}`?"
    ))
}

fn nearest(word: &str) -> Option<&'static str> {
    let with_distance = WORDS.map(|known| (distance(word, known), known));
    let (slips, known) = with_distance.into_iter().min()?;
    (1..=SLIPS).contains(&slips).then_some(known)
}

fn is_program(word: &str, path: &OsStr) -> bool {
    std::env::split_paths(path).any(|directory| directory.join(Path::new(word)).is_file())
}

/// Letters to change, add, leave out or exchange with their neighbour to get from one word to the
/// other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let change = usize::from(one[i - 1] != other[j - 1]);
            let mut best = (rows[i - 1][j - 1] + change)
                .min(rows[i - 1][j] + 1)
                .min(row[j - 1] + 1);
            let is_exchanged =
                i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
            if is_exchanged {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str) -> Option<String> {
        explain(word, &[("PATH".into(), "/usr/bin:/bin".into())])
    }

    #[test]
    fn slips_are_explained_and_programs_and_other_words_are_not() {
        for (word, meant) in [
            ("doctr", "doctor"),
            ("docotr", "doctor"),
            ("Doctor", "doctor"),
            ("debgu", "debug"),
            ("agnt", "agent"),
            ("agents", "agent"),
            ("whel", "wheel"),
        ] {
            let text = said(word).unwrap();
            let expected = format!("did you mean `horovodrun {meant}`?");
            assert!(text.ends_with(&expected), "{text}");
        }
        for word in ["doctor", "python", "sh", "train.py", "", "-np", "deploy"] {
            assert_eq!(said(word), None, "{word}");
        }
    }

    #[test]
    fn a_program_of_that_name_is_run() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("doctr"), "").unwrap();
        let environment = [("PATH".into(), scratch.path().into())];
        assert_eq!(explain("doctr", &environment), None);
        assert!(explain("doctr", &[]).is_some());
    }
}
