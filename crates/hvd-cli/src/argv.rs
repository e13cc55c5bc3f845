//! Spells out what clap cannot read: options of several letters behind one dash, such as `-np`.
//! Looks only at what stands before the command, so a script's own `-np` stays as it is.

use clap::{Arg, Command, CommandFactory};

use crate::args::Args;

/// Options of several letters and the long options they stand for.
const SPELLINGS: [(&str, &str); 4] = [
    ("-np", "--num-proc"),
    ("-cb", "--check-build"),
    ("-hostfile", "--hostfile"),
    ("-prefix-timestamp", "--prefix-output-with-timestamp"),
];

/// The arguments of `horovodrun`, program's name first, in a form clap understands.
pub(crate) fn spell_out(argv: &[String]) -> Vec<String> {
    spell_out_for(&Args::command(), argv)
}

/// The same for a command of other options.
pub(crate) fn spell_out_for(options: &Command, argv: &[String]) -> Vec<String> {
    let mut words = argv.iter();
    let mut spelled: Vec<String> = words.next().cloned().into_iter().collect();
    while let Some(word) = words.next() {
        if word == "--" || word == "-" || !word.starts_with('-') {
            spelled.push(word.clone());
            break;
        }
        let long = spell(word);
        let has_value = takes_next_word(options, &long);
        spelled.push(long);
        if has_value {
            spelled.extend(words.next().cloned());
        }
    }
    spelled.extend(words.cloned());
    spelled
}

fn spell(word: &str) -> String {
    for (short, long) in SPELLINGS {
        match word.strip_prefix(short) {
            Some("") => return long.to_owned(),
            Some(rest) if rest.starts_with('=') => return format!("{long}{rest}"),
            // `-np4`, in the manner of `-n4`.
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
                return format!("{long}={rest}");
            }
            _ => {}
        }
    }
    word.to_owned()
}

/// Whether the word after this option is its value, and not another option or the command.
fn takes_next_word(options: &Command, word: &str) -> bool {
    let option = match word.strip_prefix("--") {
        Some(long) if long.contains('=') => None,
        Some(long) => by_long(options, long),
        None => by_short(options, word),
    };
    option.is_some_and(|option| option.get_action().takes_values())
}

/// An exact name, or the only one that begins so; anything else clap will refuse.
fn by_long<'a>(options: &'a Command, long: &str) -> Option<&'a Arg> {
    let is = |option: &&Arg| names(option).any(|name| name == long);
    let begins = |option: &&Arg| names(option).any(|name| name.starts_with(long));
    options
        .get_arguments()
        .find(is)
        .or_else(|| options.get_arguments().find(begins))
}

fn names(option: &Arg) -> impl Iterator<Item = &str> {
    option
        .get_long()
        .into_iter()
        .chain(option.get_all_aliases().unwrap_or_default())
}

/// `-n`, but not `-n4`, whose value is attached.
fn by_short<'a>(options: &'a Command, word: &str) -> Option<&'a Arg> {
    let mut letters = word.chars().skip(1);
    let (letter, None) = (letters.next()?, letters.next()) else {
        return None;
    };
    options
        .get_arguments()
        .find(|option| option.get_short() == Some(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> String {
        let argv: Vec<String> = format!("horovodrun {line}")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        spell_out(&argv)[1..].join(" ")
    }

    #[test]
    fn options_of_several_letters_are_spelled_out() {
        assert_eq!(spelled("-np 2 python"), "--num-proc 2 python");
        assert_eq!(spelled("-np=2 x"), "--num-proc=2 x");
        assert_eq!(spelled("-np2 x"), "--num-proc=2 x");
        assert_eq!(spelled("-cb"), "--check-build");
        assert_eq!(
            spelled("-prefix-timestamp -np 1 x"),
            "--prefix-output-with-timestamp --num-proc 1 x"
        );
    }

    #[test]
    fn the_commands_own_options_are_left_alone() {
        assert_eq!(
            spelled("-np 2 mpirun -np 4 x"),
            "--num-proc 2 mpirun -np 4 x"
        );
        assert_eq!(
            spelled("-H localhost:2 -np 2 x -cb"),
            "-H localhost:2 --num-proc 2 x -cb"
        );
        assert_eq!(spelled("-Hlocalhost:2 x -np"), "-Hlocalhost:2 x -np");
        assert_eq!(spelled("--verb x -np 3"), "--verb x -np 3");
        assert_eq!(spelled("--start 5 -np 3 x"), "--start 5 --num-proc 3 x");
        assert_eq!(
            spelled("--start-timeout=5 x -np"),
            "--start-timeout=5 x -np"
        );
        assert_eq!(
            spelled("--network-interface eth0 -np 2 x"),
            "--network-interface eth0 --num-proc 2 x"
        );
        assert_eq!(spelled("-np 2 -- -np 4"), "--num-proc 2 -- -np 4");
    }

    #[test]
    fn nothing_but_a_name_is_fine() {
        assert_eq!(spell_out(&[]), Vec::<String>::new());
        assert_eq!(spelled("-np"), "--num-proc");
    }
}
