//! No two types have one name, so that a name can be found by searching for it.
//!
//! Test code is left out: a test's own types are not used elsewhere. So are the names that every
//! crate has one of.

use std::collections::BTreeMap;
use std::path::Path;

use crate::text_files;

/// Names that mean the same in every crate.
const ONE_PER_CRATE: &[&str] = &["Error", "Result"];

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = text_files::all(root)?;
    Ok(duplicates(
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    ))
}

fn duplicates<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut declared: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, text) in files.filter(|(file, _)| is_checked(file)) {
        for name in types(text) {
            declared.entry(name).or_default().push(file);
        }
    }
    declared
        .into_iter()
        .filter(|(name, files)| files.len() > 1 && !ONE_PER_CRATE.contains(name))
        .map(|(name, files)| format!("several types are called `{name}`: {}", files.join(", ")))
        .collect()
}

fn is_checked(file: &str) -> bool {
    let is_rust = Path::new(file)
        .extension()
        .is_some_and(|found| found == "rs");
    let other = [
        "/tests/",
        "/tests.rs",
        "_tests.rs",
        "/examples/",
        "/benches/",
        "xtask/",
    ];
    is_rust && file.starts_with("crates/") && !other.iter().any(|part| file.contains(part))
}

/// The types that a file declares at its outermost level, before its tests.
fn types(text: &str) -> impl Iterator<Item = &str> {
    text_files::before_tests(text)
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(declared_type)
}

fn declared_type(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        rest.split_once(") ")
            .filter(|_| rest.starts_with('('))
            .map_or(rest, |(_, after)| after)
    });
    let line = line.trim_start();
    let rest = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_types_with_one_name_are_found() {
        let files = [
            (
                "crates/a/src/x.rs",
                "pub(crate) struct Slot {\n}\ntype Result<T> = X<T>;\n",
            ),
            (
                "crates/b/src/y.rs",
                "enum Slot {}\npub trait Other {}\npub type Result = ();\n",
            ),
        ];
        let found = duplicates(files.into_iter());
        assert_eq!(
            found,
            ["several types are called `Slot`: crates/a/src/x.rs, crates/b/src/y.rs"]
        );
    }

    #[test]
    fn tests_may_call_theirs_as_they_like() {
        let files = [
            (
                "crates/a/src/x.rs",
                "struct Slot;\n\n#[cfg(test)]\nmod tests {\n}\nstruct Case;\n",
            ),
            ("crates/a/src/x/tests.rs", "struct Slot;\nstruct Case;\n"),
            ("crates/a/src/y.rs", "    struct Slot;\nstruct Case;\n"),
        ];
        assert!(duplicates(files.into_iter()).is_empty());
    }
}
