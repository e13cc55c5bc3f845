//! The table of settings: what there is, what it may be, and what it means. The rows stand in
//! `setting/`, one file per concern; the reference page and the launcher's checks are made from
//! them. Says nothing about how a value is used.

mod devices;
mod engine;
mod job;
mod launcher;
pub mod name;
mod observe;
pub(crate) mod values;

use std::sync::LazyLock;

pub use values::ValueKind;

/// One setting as users see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The environment variable.
    pub variable: &'static str,
    /// The options of `horovodrun` that set it, as the reference page shows them.
    pub flag: Option<&'static str>,
    /// The key of `horovodrun`'s configuration file, sections and key with a dot between them.
    pub yaml: Option<&'static str>,
    /// What it may be.
    pub values: ValueKind,
    /// The default as text; empty if there is none.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub meaning: &'static str,
    /// Whether it does it.
    pub availability: Availability,
}

/// Whether a setting does what it says. Either way a value that makes no sense is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// It does.
    Now,
    /// It has no effect yet; it comes with what is named here.
    Later(&'static str),
}

/// Settings that belong together, one table of the reference page.
#[derive(Debug, Clone, Copy)]
pub struct SettingGroup {
    /// The heading.
    pub title: &'static str,
    /// What they have in common, in a sentence or two.
    pub about: &'static str,
    /// The settings.
    pub settings: &'static [Setting],
}

/// All groups, in the order of the reference page.
pub const SETTING_GROUPS: &[SettingGroup] = &[
    engine::COMMUNICATION,
    engine::OPERATIONS,
    engine::ALGORITHMS,
    observe::LOG,
    observe::TIMELINE,
    observe::STALL_CHECK,
    observe::AUTOTUNE,
    job::IDENTITY,
    job::BOOTSTRAP,
    launcher::LAUNCHER,
    devices::DEVICES,
];

/// Every setting, in the order of the reference page.
pub static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let settings = SETTING_GROUPS.iter().flat_map(|group| group.settings);
    settings.copied().collect()
});

/// The setting of a variable.
pub fn find(variable: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.variable == variable)
}

/// The setting of a key of the configuration file.
pub fn find_key(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.yaml == Some(key))
}

/// Whether the launcher sets this variable for each worker, so that an inherited one is overridden.
pub fn is_set_by_launcher(variable: &str) -> bool {
    let own = [name::CONTROLLER, name::CPU_OPERATIONS];
    let mut identity = job::IDENTITY.settings.iter();
    own.contains(&variable) || identity.any(|setting| setting.variable == variable)
}

/// A row of the table without option or key, available now.
const fn setting(
    variable: &'static str,
    values: ValueKind,
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting {
        variable,
        flag: None,
        yaml: None,
        values,
        default,
        meaning,
        availability: Availability::Now,
    }
}

impl Setting {
    /// What to tell a user who set something that nothing looks at yet.
    pub fn no_effect(&self) -> Option<String> {
        let Availability::Later(what) = self.availability else {
            return None;
        };
        let variable = self.variable;
        let option = self
            .flag
            .map_or_else(String::new, |flag| format!(" ({flag})"));
        Some(format!(
            "{variable}{option} has no effect yet; it comes with {what}"
        ))
    }

    /// What a value looks like, as the end of a sentence: `is not {expected}`.
    pub const fn expected(&self) -> &'static str {
        self.values.expected()
    }

    /// The row with the option that sets it.
    const fn flag(self, flag: &'static str) -> Self {
        Self {
            flag: Some(flag),
            ..self
        }
    }

    /// The row with its key in the configuration file.
    const fn key(self, yaml: &'static str) -> Self {
        Self {
            yaml: Some(yaml),
            ..self
        }
    }

    /// The row of a setting without effect until something else is there.
    const fn comes_with(self, what: &'static str) -> Self {
        Self {
            availability: Availability::Later(what),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_declared_once_and_described() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            let Setting {
                variable, meaning, ..
            } = setting;
            let first = SETTINGS
                .iter()
                .position(|other| other.variable == *variable);
            assert_eq!(first, Some(index), "{variable} is declared twice");
            assert!(meaning.ends_with('.'), "{variable}: not a sentence");
            assert!(!meaning.contains('|'), "{variable}: would break the table");
        }
    }

    #[test]
    fn every_default_is_a_value() {
        for setting in SETTINGS
            .iter()
            .filter(|setting| !setting.default.is_empty())
        {
            assert!(
                setting.values.accept(setting.default),
                "{}={}",
                setting.variable,
                setting.default
            );
        }
    }

    #[test]
    fn keys_of_the_configuration_file_are_not_used_twice() {
        for setting in SETTINGS.iter().filter(|setting| setting.yaml.is_some()) {
            let found = find_key(setting.yaml.unwrap()).unwrap();
            // One key decides about both halves of the communication.
            assert!(
                found.variable == setting.variable || setting.yaml == Some("controller"),
                "{}",
                setting.variable
            );
        }
    }

    #[test]
    fn every_variable_of_horovod_is_there() {
        for variable in include_str!("setting/known.txt").lines() {
            assert!(find(variable).is_some(), "{variable} is not in the table");
        }
    }
}
