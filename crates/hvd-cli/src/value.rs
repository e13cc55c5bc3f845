//! From what a person writes, on the command line or in the configuration file, to the value of the
//! environment variable it sets. The table of settings says what is right.

use hvd_config::{Setting, ValueKind, find, name};

/// Largest fusion buffer, in units of 1048576 bytes.
const MEGABYTES_LIMIT: u64 = 1 << 20;

/// A reader of texts for this variable, for clap.
pub(crate) fn typed(
    variable: &'static str,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |text| exported(variable, text)
}

/// The variable's value, or what would have been right.
pub(crate) fn exported(variable: &'static str, text: &str) -> Result<String, String> {
    let text = text.trim();
    let setting = find(variable).ok_or_else(|| format!("{variable} is not a setting"))?;
    if variable == name::FUSION_THRESHOLD {
        return bytes(text);
    }
    if text.is_empty() || !setting.values.accept(text) {
        return Err(format!("give {}", wanted(setting)));
    }
    match variable {
        // With its decimal point even when whole, as readers of this variable have always seen it.
        name::CYCLE_TIME => Ok(text.parse::<f64>().map_or_else(
            |_| text.to_owned(),
            |milliseconds| format!("{milliseconds:?}"),
        )),
        name::LOG_LEVEL => Ok(text.to_ascii_uppercase()),
        _ => Ok(text.to_owned()),
    }
}

/// The variable's value for a key of the configuration file. Switches are YAML's, and two keys say
/// the opposite of their variable.
pub(crate) fn exported_by_key(setting: &'static Setting, text: &str) -> Result<String, String> {
    if setting.values != ValueKind::Flag {
        return exported(setting.variable, text);
    }
    let on = match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => true,
        "false" | "no" | "off" | "0" => false,
        _ => return Err("give `true` or `false`".to_owned()),
    };
    let is_opposite = [name::STALL_CHECK_DISABLE, name::LOG_HIDE_TIME].contains(&setting.variable);
    let value = if on == is_opposite { "0" } else { "1" };
    Ok(value.to_owned())
}

fn bytes(text: &str) -> Result<String, String> {
    match text.parse::<u64>() {
        Ok(number) if number <= MEGABYTES_LIMIT => Ok((number << 20).to_string()),
        _ => Err(format!(
            "give a whole number of megabytes, 0 to {MEGABYTES_LIMIT}; 0 turns fusion off"
        )),
    }
}

fn wanted(setting: &Setting) -> String {
    if setting.variable == name::LOG_LEVEL {
        return "one of TRACE, DEBUG, INFO, WARNING, ERROR, FATAL".to_owned();
    }
    setting.expected().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_the_form_of_their_variable() {
        for (variable, text, value) in [
            (name::FUSION_THRESHOLD, "10", "10485760"),
            (name::CYCLE_TIME, "20", "20.0"),
            (name::CYCLE_TIME, "0.5", "0.5"),
            (name::LOG_LEVEL, "debug", "DEBUG"),
            (name::TIMELINE, "a b.json", "a b.json"),
            (name::THREAD_AFFINITY, "0,1", "0,1"),
        ] {
            assert_eq!(exported(variable, text).as_deref(), Ok(value), "{variable}");
        }
        assert!(exported(name::TIMELINE, " ").is_err());
        assert!(exported(name::FUSION_THRESHOLD, "9999999").is_err());
    }

    #[test]
    fn keys_may_say_the_opposite() {
        let by_key = |key, text| exported_by_key(hvd_config::find_key(key).unwrap(), text);
        assert_eq!(by_key("stall_check.enabled", "yes").unwrap(), "0");
        assert_eq!(by_key("logging.with_timestamp", "false").unwrap(), "1");
        assert_eq!(by_key("autotune.enabled", "true").unwrap(), "1");
        assert!(by_key("autotune.enabled", "maybe").is_err());
    }
}
