//! Python packages keep to their own: a framework's folder imports `horovod.common` and itself,
//! never another framework; only `common` and `runner` touch the extension module. Keras computes
//! with other frameworks, so what its two packages share may use theirs.

use std::fs;
use std::path::Path;

use crate::files::sources;

/// Packages any other may import.
const SHARED: &[&str] = &["common"];

/// Packages that use another framework's: who, and whose.
const BRIDGES: &[(&str, &[&str])] = &[
    ("_keras", &["jax", "numpy", "tensorflow", "torch"]),
    ("keras", &["_keras"]),
    ("tensorflow", &["_keras"]),
];

/// Packages that may import the extension module.
const CORE_USERS: &[&str] = &["common", "runner"];

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let home = root.join("python/horovod");
    let mut broken = Vec::new();
    for path in sources(&home)? {
        let inside = path.strip_prefix(&home).unwrap_or(&path);
        let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
        // Files at the top (`__init__.py`) tie the packages together.
        let [package, _, ..] = parts.as_slice() else {
            continue;
        };
        for line in fs::read_to_string(&path)?.lines() {
            if let Some(problem) = problem(package, line) {
                broken.push(format!("python/horovod/{}: {problem}", inside.display()));
            }
        }
    }
    Ok(broken)
}

fn problem(package: &str, line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (Some("from" | "import"), Some(module)) = (words.next(), words.next()) else {
        return None;
    };
    let imports_core =
        module == "horovod._core" || (module == "horovod" && line.contains("import _core"));
    if imports_core && !CORE_USERS.contains(&package) {
        return Some("only horovod.common and horovod.runner import horovod._core".to_owned());
    }
    let other = module.strip_prefix("horovod.")?.split('.').next()?;
    let bridged = BRIDGES
        .iter()
        .any(|(user, used)| *user == package && used.contains(&other));
    let allowed = other == package || other == "_core" || bridged || SHARED.contains(&other);
    (!allowed).then(|| format!("horovod.{package} must not import horovod.{other}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_found() {
        assert_eq!(problem("torch", "from horovod.common import basics"), None);
        assert_eq!(problem("torch", "from horovod.torch import mpi_ops"), None);
        assert_eq!(problem("torch", "import numpy as np"), None);
        assert!(problem("torch", "from horovod.numpy import mpi_ops").is_some());
        assert!(problem("torch", "from horovod import _core").is_some());
        assert_eq!(problem("common", "from horovod import _core"), None);
        assert_eq!(
            problem("_keras", "from horovod.torch import Compression"),
            None
        );
        assert!(problem("keras", "from horovod.torch import Compression").is_some());
    }
}
