//! `horovodrun agent`: what starts the ranks of a host for a driver elsewhere. `horovodrun` starts it
//! through ssh by itself (`--stdio`); where there is no ssh, people start it beforehand.

use std::ffi::OsString;

use clap::Parser;
use hvd_config::{Environment, name};
use hvd_launch::Calling;

use crate::{complain, refuse};

/// The first word of the command line.
pub(crate) const WORD: &str = "agent";

/// The fewest characters of a token that is hard to guess.
const TOKEN: usize = 16;

#[derive(Debug, Parser)]
#[command(name = "horovodrun agent", override_help = include_str!("help_agent.txt"))]
struct AgentArgs {
    /// Where the driver's `--agents` listens.
    #[arg(value_name = "HOST:PORT", required_unless_present = "stdio")]
    driver: Option<String>,
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long)]
    once: bool,
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
pub(crate) fn token(environment: &Environment) -> Result<String, String> {
    match environment.text(name::AGENT_TOKEN) {
        Some(token) if token.len() >= TOKEN => Ok(token.to_owned()),
        Some(_) => Err(format!(
            "{} has fewer than {TOKEN} characters; use e.g. `openssl rand -hex 32`",
            name::AGENT_TOKEN
        )),
        None => Err(format!(
            "{} is not set; give driver and agents the same secret, e.g. the output of \
             `openssl rand -hex 32`",
            name::AGENT_TOKEN
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_to_be_there_and_hard_to_guess() {
        let with = |value: &str| token(&[(name::AGENT_TOKEN, value)].into_iter().collect());
        assert_eq!(with("0123456789abcdef").unwrap(), "0123456789abcdef");
        assert!(with("secret").unwrap_err().contains("fewer than 16"));
        let nothing = token(&Environment::default()).unwrap_err();
        assert!(nothing.contains("openssl rand -hex 32"), "{nothing}");
    }

    #[test]
    fn the_help_fits_a_terminal_and_names_the_options() {
        let help = include_str!("help_agent.txt");
        assert!(help.lines().all(|line| line.chars().count() <= 80));
        for option in ["--name", "--once", "HOROVOD_AGENT_TOKEN"] {
            assert!(help.contains(option), "{option}");
        }
    }
}
