//! The reference page of the settings, made from the table in `hvd-config`. `cargo xtask docs`
//! writes it, `cargo xtask tidy` fails when it is not what would be written.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use hvd_config::{Availability, SETTING_GROUPS, Setting, SettingGroup};

/// Where the page is.
const PAGE: &str = "docs/reference/settings.md";

const OPENING: &str = "\
# Settings

<!-- Written by `cargo xtask docs` from the table in crates/hvd-config/src/setting; edit that. -->

A setting is an environment variable of the workers, read once in `hvd.init()`. Many can also be given to `horovodrun`, as
an option or as a key of the YAML file of `--config-file`. Options take precedence over the file, and the file over the
environment.

An invalid value is an error that names the variable. An empty variable counts as not set. Switches are `1` or `0`, or
`true` or `false`. Settings marked *no effect yet* are checked, but used only once the feature they name exists.
";

/// Writes the page.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    fs::write(root.join(PAGE), page()).with_context(|| format!("cannot write {PAGE}"))
}

/// Whether the page is up to date.
pub(crate) fn check(root: &Path) -> Option<String> {
    let found = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    (found != page()).then(|| format!("{PAGE} is not up to date; run `cargo xtask docs`"))
}

fn page() -> String {
    let mut text = OPENING.to_owned();
    for group in SETTING_GROUPS {
        table(&mut text, group);
    }
    text
}

fn table(text: &mut String, group: &SettingGroup) {
    let _ = writeln!(text, "\n## {}\n\n{}\n", group.title, group.about);
    text.push_str("| variable, option, key | values | meaning |\n");
    text.push_str("|---|---|---|\n");
    for setting in group.settings {
        text.push_str(&row(setting));
    }
}

fn row(setting: &Setting) -> String {
    let mut names = vec![code(setting.variable)];
    names.extend(setting.flag.into_iter().flat_map(codes));
    names.extend(setting.yaml.map(code));
    let mut values = setting.expected().to_owned();
    if !setting.default.is_empty() {
        let _ = write!(values, "<br>default {}", code(setting.default));
    }
    let mut meaning = setting.meaning.to_owned();
    if let Availability::Later(what) = setting.availability {
        let _ = write!(meaning, " *No effect yet: comes with {what}.*");
    }
    format!("| {} | {values} | {meaning} |\n", names.join("<br>"))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn codes(texts: &str) -> impl Iterator<Item = String> {
    texts.split(", ").map(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_three_cells() {
        for line in page().lines().filter(|line| line.starts_with('|')) {
            assert_eq!(line.matches('|').count(), 4, "{line}");
        }
    }

    #[test]
    fn a_page_that_is_missing_or_old_is_reported() {
        let nowhere = Path::new("/nonexistent");
        assert!(check(nowhere).unwrap().contains("cargo xtask docs"));
    }

    #[test]
    fn a_row_says_everything() {
        let setting = hvd_config::find("HOROVOD_CYCLE_TIME").unwrap();
        let row = row(setting);
        for part in [
            "`HOROVOD_CYCLE_TIME`",
            "`--cycle-time-ms`",
            "`params.cycle_time_ms`",
            "0 or more<br>default `0` |",
        ] {
            assert!(row.contains(part), "{row}");
        }
        let row = super::row(hvd_config::find("HOROVOD_ELASTIC").unwrap());
        assert!(
            row.contains("*No effect yet: comes with elastic jobs.*"),
            "{row}"
        );
    }
}
