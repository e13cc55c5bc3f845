//! The module order of `hvd-launch`: sorted by the process that code runs in, dependencies only
//! downwards. [`ORDER`] is the rule; the table in `hvd-launch/src/lib.rs` explains it.
//!
//! Reads the paths in the source (`crate::...`, and `super::...` where it leads to the crate's
//! root), not what the compiler makes of them. Test code may look at anything.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::{files, text_files};

/// The crate's sources.
const SOURCES: &str = "crates/hvd-launch/src";

/// The top-level modules, highest first, and what each may use. A module uses only modules that
/// stand below it, so that there is no cycle.
const ORDER: &[(&str, &[&str])] = &[
    (
        "supervisor",
        &[
            "agent", "doctor", "mpirun", "driver", "debug", "spec", "messages", "process", "error",
        ],
    ),
    (
        "agent",
        &[
            "output", "protocol", "link", "hosts", "messages", "process", "error",
        ],
    ),
    (
        "doctor",
        &[
            "driver", "output", "spec", "hosts", "messages", "process", "error", "text",
        ],
    ),
    (
        "mpirun",
        &["driver", "spec", "hosts", "messages", "process", "error"],
    ),
    (
        "driver",
        &[
            "debug", "output", "protocol", "link", "spec", "hosts", "messages", "process", "error",
            "text",
        ],
    ),
    ("dry_run", &["spec", "hosts", "process", "error"]),
    ("debug", &["spec", "error"]),
    ("output", &["link", "spec", "messages", "process", "error"]),
    ("protocol", &["link", "hosts", "process"]),
    ("link", &[]),
    ("spec", &["hosts", "process"]),
    ("hosts", &["process", "error", "text"]),
    ("messages", &["process"]),
    ("process", &["error"]),
    ("error", &[]),
    ("text", &[]),
];

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let folder = root.join(SOURCES);
    let mut broken = upward_rows(ORDER);
    let mut modules = BTreeSet::new();
    for path in files::sources(&folder)? {
        let name = path.strip_prefix(&folder)?.to_string_lossy().into_owned();
        if is_code(&name) {
            modules.insert(module_path(&name)[0].to_owned());
            broken.extend(bad_uses(&name, &fs::read_to_string(&path)?));
        }
    }
    broken.extend(unknown(&modules));
    let overview = fs::read_to_string(folder.join("lib.rs"))?;
    broken.extend(undescribed(&overview));
    Ok(broken)
}

/// Rows that would allow a cycle.
fn upward_rows(order: &[(&str, &[&str])]) -> Vec<String> {
    let is_below = |index: usize, used: &str| order[index + 1..].iter().any(|row| row.0 == used);
    let rows = order.iter().enumerate();
    rows.flat_map(|(index, (module, may_use))| {
        may_use
            .iter()
            .filter(move |used| !is_below(index, used))
            .map(move |used| {
                format!("xtask/src/launcher_modules.rs: `{used}` does not stand below `{module}`")
            })
    })
    .collect()
}

/// Modules without a row, and rows without a module.
fn unknown(modules: &BTreeSet<String>) -> Vec<String> {
    let rows = ORDER.iter().map(|(module, _)| *module);
    let gone = rows
        .filter(|module| !modules.contains(*module))
        .map(|module| format!("xtask/src/launcher_modules.rs: {SOURCES} has no module `{module}`"));
    let new = modules
        .iter()
        .filter(|module| may_use(module).is_none())
        .map(|module| {
            format!(
                "{SOURCES}: the new module `{module}` needs a row in xtask/src/launcher_modules.rs"
            )
        });
    gone.chain(new).collect()
}

/// Modules of which the crate's first paragraphs do not say in which process they run.
fn undescribed(overview: &str) -> Vec<String> {
    let described: Vec<&str> = overview
        .lines()
        .filter(|line| line.starts_with("//!"))
        .collect();
    let is_described = |module: &str| {
        let (file, folder) = (format!("`{module}.rs`"), format!("`{module}/`"));
        let names_it = |line: &&str| line.contains(&file) || line.contains(&folder);
        described.iter().any(names_it)
    };
    ORDER
        .iter()
        .filter(|(module, _)| !is_described(module))
        .map(|(module, _)| {
            format!("{SOURCES}/lib.rs: does not say in which process `{module}` runs")
        })
        .collect()
}

/// Uses of other modules that the order does not allow, in one file.
fn bad_uses(name: &str, text: &str) -> Vec<String> {
    let path = module_path(name);
    let Some(allowed) = may_use(path[0]) else {
        return Vec::new();
    };
    let used: BTreeSet<&str> = used_modules(path.len(), text).into_iter().collect();
    used.into_iter()
        .filter(|used| *used != path[0] && !allowed.contains(used))
        .map(|used| {
            if may_use(used).is_some() {
                format!("{SOURCES}/{name}: `{}` must not use `{used}`", path[0])
            } else {
                format!("{SOURCES}/{name}: `crate::{used}` names no module of the order")
            }
        })
        .collect()
}

fn may_use(module: &str) -> Option<&'static [&'static str]> {
    ORDER
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, may_use)| *may_use)
}

/// Whether a file is part of a module: not the crate's root, not test code.
fn is_code(name: &str) -> bool {
    let is_test = name.starts_with("tests/") || name.contains("/tests/");
    name != "lib.rs" && !is_test && !name.ends_with("/tests.rs")
}

/// The modules that lead to a file: `driver`, `fleet` for `driver/fleet.rs`.
fn module_path(name: &str) -> Vec<&str> {
    let name = name.strip_suffix(".rs").unwrap_or(name);
    let name = name.strip_suffix("/mod").unwrap_or(name);
    name.split('/').collect()
}

/// What a file that lies `depth` modules deep names at the crate's root.
fn used_modules(depth: usize, text: &str) -> Vec<&str> {
    let code = text_files::before_tests(text);
    let to_root = "super::".repeat(depth);
    let mut used = Vec::new();
    for prefix in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = &code[..at];
            let line = before.rsplit('\n').next().unwrap_or(before);
            let is_longer = before.ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
            if !line.contains("//") && !is_longer {
                used.extend(first_names(&code[at + prefix.len()..]));
            }
        }
    }
    used
}

/// The first name of a path, or of each path in braces.
fn first_names(paths: &str) -> Vec<&str> {
    let Some(list) = paths.strip_prefix('{') else {
        return vec![name_at_start(paths)];
    };
    let mut depth = 0;
    let mut names = vec![name_at_start(list)];
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name_at_start(&list[at + 1..])),
            _ => {}
        }
    }
    // After the last comma there may be nothing.
    names.retain(|name| !name.is_empty());
    names
}

fn name_at_start(text: &str) -> &str {
    let text = text.trim_start();
    if text.starts_with('*') {
        return &text[..1];
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_has_no_cycle() {
        assert_eq!(upward_rows(ORDER), Vec::<String>::new());
        let cycle: &[(&str, &[&str])] = &[("a", &["b"]), ("b", &["a"])];
        assert_eq!(
            upward_rows(cycle),
            ["xtask/src/launcher_modules.rs: `a` does not stand below `b`"]
        );
    }

    #[test]
    fn a_use_upwards_is_found() {
        let expected = ["crates/hvd-launch/src/process/tree.rs: `process` must not use `driver`"];
        for code in [
            "use crate::driver::Fleet;\n",
            "use crate::{\n    error::{Error, Result},\n    driver::{Fleet, fleet::Greeting},\n};\n",
            "fn f() { crate::driver::run() }\n",
            "use super::super::driver::Fleet;\n",
            "use super::super::{driver, error};\n",
        ] {
            assert_eq!(bad_uses("process/tree.rs", code), expected, "{code}");
        }
    }

    #[test]
    fn uses_downwards_and_inside_a_module_are_allowed() {
        let code =
            "use super::{fleet, super_name};\nuse crate::{driver::Fleet, hosts, text::words};\n";
        assert_eq!(bad_uses("driver/job.rs", code), Vec::<String>::new());
        let deeper = "use super::super::start_agent;\n";
        assert_eq!(
            bad_uses("driver/fleet/agent_reader.rs", deeper),
            Vec::<String>::new()
        );
    }

    #[test]
    fn comments_and_tests_may_name_anything() {
        let code = "//! See [`crate::driver`].\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::driver;\n}\n";
        assert_eq!(bad_uses("process/tree.rs", code), Vec::<String>::new());
        assert!(!is_code("hosts/addresses/tests.rs") && !is_code("tests/agent_link.rs"));
    }

    #[test]
    fn the_root_of_the_crate_is_no_way_round() {
        assert_eq!(
            bad_uses(
                "process/tree.rs",
                "use crate::launch;\nuse super::super::*;\n"
            ),
            [
                "crates/hvd-launch/src/process/tree.rs: `crate::*` names no module of the order",
                "crates/hvd-launch/src/process/tree.rs: `crate::launch` names no module of the order",
            ]
        );
    }

    #[test]
    fn a_module_without_a_row_is_found() {
        let rows = ORDER.iter().map(|(module, _)| (*module).to_owned());
        let mut modules: BTreeSet<String> = rows.chain(["cluster".to_owned()]).collect();
        modules.remove("text");
        assert_eq!(
            unknown(&modules),
            [
                "xtask/src/launcher_modules.rs: crates/hvd-launch/src has no module `text`",
                "crates/hvd-launch/src: the new module `cluster` needs a row in \
                 xtask/src/launcher_modules.rs",
            ]
        );
    }

    #[test]
    fn a_module_that_the_overview_leaves_out_is_found() {
        let described = ORDER[1..].iter();
        let lines: Vec<String> = described
            .map(|(module, _)| format!("//! | `{module}/` |"))
            .collect();
        assert_eq!(
            undescribed(&lines.join("\n")),
            ["crates/hvd-launch/src/lib.rs: does not say in which process `supervisor` runs"]
        );
    }
}
