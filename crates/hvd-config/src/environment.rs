//! A snapshot of environment variables, and the one place where their texts become values.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::setting::values::parse_flag;
use crate::setting::{self, Availability, Setting, name};
use crate::{Error, Result};

/// Environment variables, read once.
#[derive(Clone, Default)]
pub struct Environment(HashMap<String, String>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(variable, value)| match variable {
            name::SECRET_KEY => (variable, "secret"),
            _ => (variable, value),
        };
        let pairs = self.0.iter().map(|(name, value)| (&**name, &**value));
        f.debug_map().entries(pairs.map(shown)).finish()
    }
}

impl Environment {
    /// The variables of this process. Values that are not UTF-8 are kept with replacement
    /// characters; no setting of ours has such a value.
    pub fn of_process() -> Self {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self(
            std::env::vars_os()
                .map(|(name, value)| (lossy(name), lossy(value)))
                .collect(),
        )
    }

    /// The same with some variables set anew; an empty text unsets one.
    #[must_use]
    pub fn with<'a>(mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs.into_iter();
        self.0
            .extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        self
    }

    /// The text of a variable, if set and not empty.
    pub fn text(&self, variable: &str) -> Option<&str> {
        self.0
            .get(variable)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    }

    /// Refuses every text that is not what the table of settings asks for.
    pub fn check(&self) -> Result<()> {
        for setting in setting::SETTINGS.iter() {
            if let Some(text) = self.text(setting.variable)
                && !setting.values.accept(text)
            {
                return Err(malformed(setting.variable, text));
            }
        }
        Ok(())
    }

    /// The settings that are set to something other than their default and have no effect yet.
    pub fn without_effect(&self) -> Vec<&'static Setting> {
        setting::SETTINGS
            .iter()
            .filter(|setting| setting.availability != Availability::Now)
            .filter(|setting| {
                self.text(setting.variable)
                    .is_some_and(|text| text.trim() != setting.default)
            })
            .collect()
    }

    /// Whether a switch is on; one that is not set is as the table of settings says.
    pub fn flag(&self, variable: &'static str) -> Result<bool> {
        let declared = setting::find(variable);
        let default = declared.is_some_and(|setting| parse_flag(setting.default) == Some(true));
        Ok(self.optional_flag(variable)?.unwrap_or(default))
    }

    /// Whether a switch is on, or `None` if it is not set.
    pub fn optional_flag(&self, variable: &'static str) -> Result<Option<bool>> {
        let Some(text) = self.text(variable) else {
            return Ok(None);
        };
        parse_flag(text.trim())
            .map(Some)
            .ok_or_else(|| malformed(variable, text))
    }

    /// The file or folder a variable names.
    pub fn path(&self, variable: &str) -> Option<PathBuf> {
        self.text(variable).map(PathBuf::from)
    }

    /// The value of a variable that has a default in the table of settings.
    pub fn value<T: FromStr>(&self, variable: &'static str, accept: fn(&T) -> bool) -> Result<T> {
        let declared = setting::find(variable);
        let text = self
            .text(variable)
            .or(declared.map(|setting| setting.default))
            .unwrap_or("");
        text.trim()
            .parse()
            .ok()
            .filter(accept)
            .ok_or_else(|| malformed(variable, text))
    }

    /// The value of a variable, or `None` if it is not set.
    pub fn optional<T: FromStr>(&self, variable: &'static str) -> Result<Option<T>> {
        let Some(text) = self.text(variable) else {
            return Ok(None);
        };
        text.trim()
            .parse()
            .map(Some)
            .map_err(|_| malformed(variable, text))
    }
}

/// The error for a text that is not what the table of settings asks for.
pub(crate) fn malformed(variable: &'static str, value: &str) -> Error {
    let expected = setting::find(variable).map_or("valid", Setting::expected);
    Error::Malformed {
        variable,
        value: value.to_owned(),
        expected,
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_effect_is_known_unless_it_is_the_default() {
        let environment: Environment = [
            ("HOROVOD_NUM_NCCL_STREAMS", "4"),
            ("HOROVOD_MPI_THREADS_DISABLE", "0"),
            ("HOROVOD_CACHE_CAPACITY", "7"),
        ]
        .into_iter()
        .collect();
        let names = environment.without_effect();
        let names: Vec<&str> = names.iter().map(|setting| setting.variable).collect();
        assert_eq!(names, ["HOROVOD_NUM_NCCL_STREAMS"]);
    }

    #[test]
    fn switches_are_numbers_or_words() {
        let environment: Environment = [("HOROVOD_ELASTIC", "True"), ("HOROVOD_AUTOTUNE", "0")]
            .into_iter()
            .collect();
        assert_eq!(environment.flag("HOROVOD_ELASTIC"), Ok(true));
        assert_eq!(environment.flag("HOROVOD_AUTOTUNE"), Ok(false));
        assert_eq!(environment.flag("HOROVOD_BATCH_D2D_MEMCOPIES"), Ok(true));
        assert_eq!(environment.optional_flag("HOROVOD_CCL_CACHE"), Ok(None));
    }
}
