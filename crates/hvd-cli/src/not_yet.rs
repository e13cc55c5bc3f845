//! Options of Horovod that this version does not have yet. The error says so, instead of
//! calling the option unknown.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

const ELASTIC: [&str; 9] = [
    "--blacklist-cooldown-range",
    "--elastic-timeout",
    "--host-discovery-script",
    "--max-np",
    "--max-num-proc",
    "--min-np",
    "--min-num-proc",
    "--reset-limit",
    "--slots-per-host",
];

/// What to say instead of "unexpected argument", if the option is one of those to come.
pub(crate) fn explain(error: &Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(option) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let option = option.split('=').next()?;
    ELASTIC.contains(&option).then(|| refusal(option))
}

fn refusal(option: &str) -> String {
    format!("`{option}` needs elastic training, which this version does not support yet; omit it")
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::{args::Args, argv::spell_out};

    fn explained(line: &str) -> Option<String> {
        let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        explain(&Args::try_parse_from(spell_out(&argv)).unwrap_err())
    }

    #[test]
    fn options_to_come_are_not_taken_for_the_beginning_of_others() {
        for option in ELASTIC {
            let mut options = Args::command();
            options.build();
            let mut longs = options.get_arguments().filter_map(clap::Arg::get_long);
            assert!(
                !longs.any(|long| long.starts_with(&option[2..])),
                "{option}"
            );
        }
    }

    #[test]
    fn options_to_come_are_told_from_mistakes() {
        for line in [
            "horovodrun --min-np 2 x",
            "horovodrun --host-discovery-script ./hosts x",
        ] {
            assert!(
                explained(line).unwrap().contains("does not support yet"),
                "{line}"
            );
        }
        let elastic = explained("horovodrun --reset-limit 3 x").unwrap();
        assert!(elastic.contains("needs elastic training"), "{elastic}");
        assert_eq!(explained("horovodrun --hostfiles h x"), None);
        assert_eq!(explained("horovodrun -np x"), None);
    }
}
