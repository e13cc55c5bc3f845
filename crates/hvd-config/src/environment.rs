//! A snapshot of environment variables, and the one place where their texts become values.

use std::collections::HashMap;
use std::str::FromStr;

use crate::setting;
use crate::{Error, Result};

/// Environment variables, read once.
#[derive(Debug, Clone, Default)]
pub struct Environment(HashMap<String, String>);

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

    /// The text of a variable, if set and not empty.
    pub fn text(&self, variable: &str) -> Option<&str> {
        self.0
            .get(variable)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
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
    let expected = setting::find(variable).map_or("valid", |setting| setting.expected);
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
