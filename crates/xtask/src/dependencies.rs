//! Who may depend on whom. The table is the rule; ARCHITECTURE.md draws it.
//!
//! `hvd-types` and values of `hvd-config` may be used everywhere above them. Dev-dependencies are
//! free: tests may look at anything.

use std::path::Path;

use anyhow::Context;
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// For each crate, the crates of ours it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("hvd-types", &[]),
    ("hvd-config", &["hvd-types"]),
    ("hvd-wire", &["hvd-types"]),
    ("hvd-rendezvous", &["hvd-types", "hvd-config", "hvd-wire"]),
    (
        "hvd-transport",
        &["hvd-types", "hvd-config", "hvd-rendezvous"],
    ),
    ("hvd-mpi", &["hvd-types", "hvd-config", "hvd-transport"]),
    ("hvd-collectives", &["hvd-types", "hvd-transport"]),
    (
        "hvd-engine",
        &["hvd-types", "hvd-wire", "hvd-transport", "hvd-collectives"],
    ),
    ("hvd-jax", &["hvd-types", "hvd-engine"]),
    ("hvd-tensorflow", &["hvd-types", "hvd-engine"]),
    ("hvd-mxnet", &["hvd-types", "hvd-engine"]),
    ("hvd-simulate", &["hvd-types", "hvd-wire", "hvd-engine"]),
    (
        "hvd-launch",
        &["hvd-types", "hvd-config", "hvd-rendezvous", "hvd-wire"],
    ),
    ("hvd-cli", &["hvd-types", "hvd-config", "hvd-launch"]),
    // Hosts without a driver try each other's addresses as the launcher's agents do.
    (
        "hvd-bootstrap",
        &["hvd-types", "hvd-config", "hvd-rendezvous", "hvd-launch"],
    ),
    (
        "hvd-python",
        &[
            "hvd-types",
            "hvd-config",
            "hvd-bootstrap",
            "hvd-transport",
            "hvd-mpi",
            "hvd-engine",
            "hvd-jax",
            "hvd-tensorflow",
            "hvd-mxnet",
            "hvd-cli",
        ],
    ),
    ("hvd-testkit", &["hvd-types"]),
    ("xtask", &["hvd-config"]),
];

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let metadata = MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .exec()
        .context("cannot read the workspace's metadata")?;
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let mut broken = Vec::new();
    for package in &metadata.packages {
        broken.extend(new_edges(package));
        broken.extend(undescribed(&package.name, &architecture));
    }
    Ok(broken)
}

/// Dependencies that the table does not allow.
fn new_edges(package: &Package) -> Vec<String> {
    let name = package.name.as_str();
    let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![format!(
            "{name}: a new crate needs a row in xtask/src/dependencies.rs"
        )];
    };
    let ours = package.dependencies.iter().filter(|dependency| {
        dependency.kind == DependencyKind::Normal && dependency.name.starts_with("hvd-")
    });
    ours.filter(|dependency| !allowed.contains(&dependency.name.as_str()))
        .map(|dependency| format!("{name} must not depend on {}", dependency.name))
        .collect()
}

/// Crates that ARCHITECTURE.md does not describe, or without saying what they must not know.
fn undescribed(name: &str, architecture: &str) -> Option<String> {
    let mut sections = architecture.split("\n### ");
    let section = sections.find(|section| {
        section
            .lines()
            .next()
            .is_some_and(|title| title.split(", ").any(|word| word == name))
    });
    match section {
        None => Some(format!("ARCHITECTURE.md has no section on {name}")),
        Some(text) if !text.contains("**Must not know**") => Some(format!(
            "ARCHITECTURE.md does not say what {name} must not know"
        )),
        Some(_) => None,
    }
}
