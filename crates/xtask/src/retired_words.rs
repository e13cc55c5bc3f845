//! Names that were given up for the field's own words do not come back.
//!
//! The list is in CHANGELOG.md, the one place that may still say them: an engineer who remembers
//! an old name finds there what became of it. Three kinds are told apart. Some words are rejected
//! wherever they stand, in any part of an identifier and in prose. Words that English cannot do
//! without are rejected only as the whole name of a type, module or file, or of a function.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::text_files;

/// Lines of CHANGELOG.md that hold the lists, by their beginnings.
const ANYWHERE: &str = "- Retired everywhere:";
const TYPES_AND_MODULES: &str = "- Retired as types, modules and files:";
const FUNCTIONS: &str = "- Retired as functions:";

/// The words, in lower case. One that ends in `*` stands for all that begin like it.
struct Retired {
    anywhere: Vec<String>,
    types_and_modules: Vec<String>,
    functions: Vec<String>,
}

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let changelog = fs::read_to_string(root.join("CHANGELOG.md"))?;
    let retired = Retired::read(&changelog)?;
    let mut broken = Vec::new();
    for (name, text) in text_files::all(root)? {
        if name != "CHANGELOG.md" {
            broken.extend(retired.problems(&name, &text));
        }
    }
    Ok(broken)
}

impl Retired {
    fn read(changelog: &str) -> anyhow::Result<Self> {
        Ok(Self {
            anywhere: list(changelog, ANYWHERE)?,
            types_and_modules: list(changelog, TYPES_AND_MODULES)?,
            functions: list(changelog, FUNCTIONS)?,
        })
    }

    fn problems(&self, name: &str, text: &str) -> Vec<String> {
        let mut broken = Vec::new();
        if let Some(word) = find(&self.anywhere, name) {
            broken.push(format!("{name}: `{word}` is a retired word (CHANGELOG.md)"));
        }
        let is_code = has_extension(name, &["rs", "py"]);
        let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str());
        if is_code && stem.is_some_and(|stem| self.types_and_modules.iter().any(|w| w == stem)) {
            broken.push(format!("{name}: a retired name for a file (CHANGELOG.md)"));
        }
        for (number, line) in (1..).zip(text.lines()) {
            let anywhere = find(&self.anywhere, line).map(str::to_owned);
            let declared = || is_code.then(|| self.declared(line)).flatten();
            if let Some(word) = anywhere.or_else(declared) {
                broken.push(format!(
                    "{name}:{number}: `{word}` is a retired word (CHANGELOG.md)"
                ));
            }
        }
        broken
    }

    /// The retired name that a line of code declares, if it does.
    fn declared(&self, line: &str) -> Option<String> {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        while let Some(word) = words.next() {
            let list = match word {
                "struct" | "enum" | "trait" | "type" | "mod" | "class" => &self.types_and_modules,
                "fn" | "def" => &self.functions,
                _ => continue,
            };
            let name = words.next().unwrap_or_default();
            if list.contains(&name.to_lowercase()) {
                return Some(name.to_owned());
            }
        }
        None
    }
}

/// The words in backticks behind the beginning of a line, and on its continuation lines.
fn list(changelog: &str, beginning: &str) -> anyhow::Result<Vec<String>> {
    let (_, rest) = changelog
        .split_once(beginning)
        .with_context(|| format!("CHANGELOG.md lacks the line `{beginning}`"))?;
    let end = rest.find("\n-").or_else(|| rest.find("\n\n"));
    let entry = &rest[..end.unwrap_or(rest.len())];
    Ok(entry
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_lowercase)
        .collect())
}

/// The first retired word, or phrase, that a text contains.
fn find<'a>(retired: &'a [String], text: &str) -> Option<&'a str> {
    let text = format!(" {} ", words(text).collect::<Vec<_>>().join(" "));
    let contains = |retired: &&String| match retired.strip_suffix('*') {
        Some(beginning) => text.contains(&format!(" {beginning}")),
        None => text.contains(&format!(" {retired} ")),
    };
    retired.iter().find(contains).map(String::as_str)
}

/// The words of a text in lower case, identifiers taken apart: `HostList` and `host_list` are both
/// `host` and `list`.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .flat_map(camel_case_parts)
        .map(str::to_lowercase)
}

fn camel_case_parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut after_lower = false;
    for (index, character) in word.char_indices() {
        if character.is_uppercase() && after_lower {
            parts.push(&word[start..index]);
            start = index;
        }
        after_lower = character.is_lowercase();
    }
    parts.push(&word[start..]);
    parts
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let extension = Path::new(name).extension().and_then(|found| found.to_str());
    extension.is_some_and(|found| extensions.contains(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retired() -> Retired {
        let changelog = format!(
            "{ANYWHERE} `gizmo`\n  (part), `wob*`, `odd job`.\n{TYPES_AND_MODULES} `thing`\n{FUNCTIONS} `do_it`\n\nMore `text`."
        );
        Retired::read(&changelog).unwrap()
    }

    #[test]
    fn words_retired_everywhere_are_found_in_any_part_of_a_name_and_in_prose() {
        for line in [
            "my_gizmo = 1;",
            "// the Gizmo",
            "BigWobble",
            "GIZMO_2",
            "OddJob",
            "an odd job",
        ] {
            assert_eq!(retired().problems("a.rs", line).len(), 1, "{line}");
        }
        assert_eq!(retired().problems("docs/gizmo.md", "").len(), 1);
        assert!(
            retired()
                .problems("a.rs", "gizmos, awobble, odd jobs")
                .is_empty()
        );
    }

    #[test]
    fn common_words_are_rejected_only_where_they_are_declared() {
        assert_eq!(retired().problems("a.rs", "pub struct Thing {").len(), 1);
        assert_eq!(retired().problems("a.py", "def do_it(self):").len(), 1);
        assert_eq!(retired().problems("src/thing.rs", "").len(), 1);
        assert!(retired().problems("a.rs", "// one thing, do_it").is_empty());
        assert!(
            retired()
                .problems("a.rs", "struct ThingList; fn thing() {}")
                .is_empty()
        );
        assert!(retired().problems("a.md", "type thing").is_empty());
    }

    #[test]
    fn a_changelog_without_the_list_is_an_error() {
        assert!(Retired::read("# Changelog").is_err());
    }
}
