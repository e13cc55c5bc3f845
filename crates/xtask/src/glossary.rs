//! ARCHITECTURE.md has a glossary, and what it says about the tree is true: its terms are in
//! alphabetical order and said once, and the file of each is there.

use std::fs;
use std::path::Path;

use anyhow::Context;

const HEADING: &str = "\n## Glossary\n";

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let page = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    problems(&page, |path| root.join(path).exists())
}

fn problems(page: &str, exists: impl Fn(&str) -> bool) -> anyhow::Result<Vec<String>> {
    let (_, section) = page
        .split_once(HEADING)
        .context("ARCHITECTURE.md has no section `Glossary`")?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows: Vec<[&str; 3]> = section.lines().filter_map(row).skip(2).collect();
    let mut broken = Vec::new();
    if rows.is_empty() {
        broken.push("ARCHITECTURE.md: the glossary is empty".to_owned());
    }
    for pair in rows.windows(2) {
        let [before, after] = [pair[0][0].to_lowercase(), pair[1][0].to_lowercase()];
        if before >= after {
            broken.push(format!(
                "ARCHITECTURE.md: glossary: `{after}` belongs before `{before}`"
            ));
        }
    }
    for [term, _, place] in rows {
        for path in place.split('`').skip(1).step_by(2) {
            if !exists(path) {
                broken.push(format!(
                    "ARCHITECTURE.md: glossary: {term}: there is no {path}"
                ));
            }
        }
    }
    Ok(broken)
}

/// The three cells of a row: term, meaning, where it lives.
fn row(line: &str) -> Option<[&str; 3]> {
    let cells: Vec<&str> = line
        .strip_prefix('|')?
        .strip_suffix('|')?
        .split('|')
        .collect();
    let [term, meaning, place] = cells.try_into().ok()?;
    Some([term.trim(), meaning.trim(), place.trim()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# A\n\n## Glossary\n\n| term | meaning | where |\n|---|---|---|\n";

    #[test]
    fn order_and_files_are_checked() {
        let page = format!("{HEAD}| b | x | `here.rs` |\n| a | x | `gone.rs` |\n\n## More\n");
        let broken = problems(&page, |path| path == "here.rs").unwrap();
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(broken[0].contains("`a` belongs before `b`"));
        assert!(broken[1].contains("there is no gone.rs"));
    }

    #[test]
    fn a_page_without_a_glossary_is_an_error() {
        assert!(problems("# A\n", |_| true).is_err());
        assert_eq!(problems(HEAD, |_| true).unwrap().len(), 1);
    }
}
