//! All text files of the repository that people write, with their contents.

use std::fs;
use std::path::Path;

/// Folders that hold nothing people write.
const SKIPPED: &[&str] = &["target", "dist", "site", "__pycache__", "node_modules"];
/// What people write; `Makefile` and `Dockerfile` have no extension.
const EXTENSIONS: &[&str] = &[
    "rs", "py", "pyi", "md", "toml", "sh", "yml", "yaml", "txt", "c",
];
const NAMES: &[&str] = &["Makefile", "Dockerfile", "run"];

/// Path below the root and contents of every text file.
pub(crate) fn all(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    collect(root, root, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if path.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci" && name != ".github";
            if !hidden && !SKIPPED.contains(&name) {
                collect(root, &path, found)?;
            }
        } else if is_text(&path, name) {
            let below = path.strip_prefix(root)?.to_string_lossy().into_owned();
            found.push((below, fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

fn is_text(path: &Path, name: &str) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) || NAMES.contains(&name)
}

/// A Rust file up to its inline module of tests.
pub(crate) fn before_tests(text: &str) -> &str {
    let is_inline = |at: &usize| {
        let line = text[*at..].lines().nth(2);
        line.is_some_and(|line| line.ends_with('{'))
    };
    let mut modules = text.match_indices("\n#[cfg(test)]\nmod ").map(|(at, _)| at);
    let end = modules.find(is_inline).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_of_tests_in_another_file_cuts_nothing_off() {
        let start = "//! Says.\n\n#[cfg(test)]\nmod tests;\n\nstruct Code;\n";
        assert_eq!(before_tests(start), start);
        let whole = format!("{start}\n#[cfg(test)]\nmod more {{\n    struct Case;\n}}\n");
        assert_eq!(before_tests(&whole), start);
    }
}
