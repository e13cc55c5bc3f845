//! Chores of the repository. `cargo xtask tidy` checks the rules of the house that neither the
//! compiler nor the linters check: who may depend on whom, among crates and among the modules of
//! the launcher; how long a file may be, that every file says what it is, that names are the
//! field's and unique, that generated pages are up to date. `cargo xtask docs` writes those pages.

#![forbid(unsafe_code)]

mod dependencies;
mod files;
mod glossary;
mod launcher_modules;
mod python;
mod retired_words;
mod settings_page;
mod text_files;
mod type_names;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

const USAGE: &str = "usage: cargo xtask tidy | docs";

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["tidy"] => report(&tidy(&root()?)?),
        ["docs"] => settings_page::write(&root()?).map(|()| ExitCode::SUCCESS),
        _ => bail!("{USAGE}"),
    }
}

/// Every broken rule, one line each.
fn tidy(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut broken = dependencies::check(root)?;
    broken.extend(files::check(root)?);
    broken.extend(launcher_modules::check(root)?);
    broken.extend(python::check(root)?);
    broken.extend(settings_page::check(root));
    broken.extend(retired_words::check(root)?);
    broken.extend(type_names::check(root)?);
    broken.extend(glossary::check(root)?);
    Ok(broken)
}

#[expect(clippy::print_stdout, reason = "this is the program's output")]
fn report(broken: &[String]) -> anyhow::Result<ExitCode> {
    for line in broken {
        println!("{line}");
    }
    if broken.is_empty() {
        println!("tidy");
        return Ok(ExitCode::SUCCESS);
    }
    bail!("{} rules broken", broken.len())
}

/// The root of the repository.
fn root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here
        .ancestors()
        .nth(2)
        .context("the repository is two levels up")?;
    Ok(root.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let broken = tidy(&root().unwrap()).unwrap();
        assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    }
}
