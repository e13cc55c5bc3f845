//! `horovodrun agent`: what starts the ranks of a host for a driver elsewhere. `horovodrun` starts it
//! through ssh by itself (`--stdio`); where there is no ssh, people start it beforehand.

use std::ffi::OsString;

use clap::Parser;
use hvd_config::{Environment, name};
use hvd_launch::{AgentToken, Calling};

use crate::{complain, refuse, show};

/// The first word of the command line.
pub(crate) const WORD: &str = "agent";

#[derive(Debug, Parser)]
#[command(name = "horovodrun agent", override_help = include_str!("help_agent.txt"))]
struct AgentArgs {
    /// Where the driver's `--agents` listens.
    #[arg(value_name = "HOST:PORT", required_unless_present_any = ["stdio", "new_token"])]
    driver: Option<String>,
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long)]
    once: bool,
    #[arg(long, conflicts_with_all = ["driver", "name", "once", "stdio"])]
    new_token: bool,
    /// Started by `horovodrun` through ssh.
    #[arg(long, hide = true, conflicts_with = "driver")]
    stdio: bool,
}

/// Serves drivers; returns the exit status.
pub(crate) fn run(program: &str, words: &[String], environment: &[(OsString, OsString)]) -> i32 {
    let words = [program.to_owned()]
        .into_iter()
        .chain(words.iter().cloned());
    let args = match AgentArgs::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    if args.new_token {
        return match AgentToken::generate() {
            Ok(token) => show(&format!("{}\n", token.to_text())),
            Err(error) => complain("horovodrun agent", &error.to_string()),
        };
    }
    let Some(driver) = args.driver else {
        return hvd_launch::serve_as_agent();
    };
    let texts = environment.iter();
    let texts = texts.filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    match token(&texts.collect()) {
        Ok(token) => {
            let calling = Calling {
                driver,
                token,
                name: args.name,
            };
            hvd_launch::serve_drivers(&calling, args.once)
        }
        Err(problem) => complain("horovodrun agent", &problem),
    }
}

/// The secret that driver and agents share.
pub(crate) fn token(environment: &Environment) -> Result<AgentToken, String> {
    const REMEDY: &str = "print one with `horovodrun agent --new-token` and give the same to the \
                          driver and all agents";
    let variable = name::AGENT_TOKEN;
    match environment.text(variable) {
        Some(text) => text
            .parse()
            .map_err(|problem| format!("{variable} {problem}; {REMEDY}")),
        None => Err(format!("{variable} is not set; {REMEDY}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_generated_token_will_do() {
        let with = |value: &str| token(&[(name::AGENT_TOKEN, value)].into_iter().collect());
        let made = AgentToken::generate().unwrap();
        assert_eq!(with(&made.to_text()).unwrap(), made);
        let remedy = "; print one with `horovodrun agent --new-token` and give the same to";
        let long = "0123456789abcdef".repeat(4);
        for by_hand in ["hunter2", &long] {
            let refused = with(by_hand).unwrap_err();
            assert!(
                refused.contains("another secret could be guessed"),
                "{refused}"
            );
            assert!(
                refused.contains(remedy) && !refused.contains(by_hand),
                "{refused}"
            );
        }
        let cut = with(&made.to_text()[..70]).unwrap_err();
        assert!(
            cut.contains("typing mistake") && cut.contains(remedy),
            "{cut}"
        );
        let nothing = token(&Environment::default()).unwrap_err();
        assert!(
            nothing.contains("is not set") && nothing.contains(remedy),
            "{nothing}"
        );
    }

    #[test]
    fn the_help_fits_a_terminal_and_names_the_options() {
        let help = include_str!("help_agent.txt");
        assert!(help.lines().all(|line| line.chars().count() <= 80));
        for option in ["--name", "--once", "--new-token", "HOROVOD_AGENT_TOKEN"] {
            assert!(help.contains(option), "{option}");
        }
    }
}
