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
