//! Files are small, say what they are, and are unsafe only where that is allowed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Longest file; a longer one holds more than one concept.
const LONGEST: usize = 600;

/// Where `unsafe` may be switched on, as beginnings of paths.
const UNSAFE: &[&str] = &[
    "crates/hvd-transport/src/shm",
    "crates/hvd-transport/src/os",
    "crates/hvd-transport/tests/interleavings/os.rs",
    "crates/hvd-collectives/src/kernel",
    "crates/hvd-engine/src/tensor.rs",
    "crates/hvd-bootstrap/src/os.rs",
    "crates/hvd-bootstrap/src/facility/pmix/ffi.rs",
    "crates/hvd-launch/src/process/os.rs",
    "crates/hvd-mpi/src/ffi",
    "crates/hvd-jax/src/ffi",
    "crates/hvd-tensorflow/src/ffi",
    "crates/hvd-mxnet/src/ffi",
    "crates/hvd-python/src/tensor.rs",
    "crates/hvd-python/src/fork.rs",
    "crates/hvd-python/src/stack/os.rs",
];

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut broken = Vec::new();
    for folder in ["crates", "python", "tests", "examples", "fuzz"] {
        for path in sources(&root.join(folder))? {
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
            broken.extend(problems(&name, &text));
        }
    }
    Ok(broken)
}

fn problems(name: &str, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let lines = text.lines().count();
    if lines > LONGEST {
        broken.push(format!(
            "{name}: {lines} lines, more than {LONGEST}; split it by concept"
        ));
    }
    let is_rust = Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "rs");
    if is_rust && !text.starts_with("//!") && !text.starts_with("#!") {
        broken.push(format!(
            "{name}: does not begin with a //! paragraph that says what it is"
        ));
    }
    let switches_unsafe_on =
        text.contains("#![expect(unsafe_code") || text.contains("allow(unsafe");
    let may = UNSAFE.iter().any(|allowed| name.starts_with(allowed));
    // This file names the attribute without using it.
    if is_rust && switches_unsafe_on && !may && !name.starts_with("crates/xtask") {
        broken.push(format!(
            "{name}: unsafe is not allowed here (xtask/src/files.rs)"
        ));
    }
    broken
}

/// Rust and Python files below a folder.
pub(crate) fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_build = path.ends_with("target") || path.ends_with("__pycache__");
        if path.is_dir() && !is_build {
            found.extend(sources(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "py")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rules_are_found() {
        let unsafe_elsewhere = "//! Says.\n#![expect(unsafe_code, reason = \"\")]\n";
        assert_eq!(
            problems("crates/hvd-wire/src/a.rs", unsafe_elsewhere).len(),
            1
        );
        assert_eq!(
            problems("crates/hvd-engine/src/tensor.rs", unsafe_elsewhere).len(),
            0
        );
        assert_eq!(
            problems("crates/hvd-wire/src/a.rs", "fn silent() {}\n").len(),
            1
        );
        assert_eq!(problems("tests/a.py", &"x\n".repeat(LONGEST + 1)).len(), 1);
    }
}
