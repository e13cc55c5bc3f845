//! What a rank that another launcher started is told about finding the others, as one value.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::setting::name;
use crate::worker::{KeySource, key_source, port_range};
use crate::{Environment, Result};

/// How rank 0's address reaches the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootstrapChoice {
    /// By what the launcher offers.
    Auto,
    /// By PMIx.
    Pmix,
    /// By PMI.
    Pmi,
    /// By a file that all ranks see.
    File,
}

/// The settings of finding a job, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapConfig {
    /// How rank 0's address reaches the other ranks.
    pub choice: BootstrapChoice,
    /// The directory for a file that all ranks see, if the user names one.
    pub directory: Option<PathBuf>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Where the user's running programs keep their sockets, if there is such a directory.
    pub runtime_directory: Option<PathBuf>,
    /// Where rank 0 is to listen, if the user says so.
    pub address: Option<String>,
    /// The port to it.
    pub port: Option<u16>,
    /// The job's key, if the user gives one.
    pub key: Option<KeySource>,
    /// The ports at which this rank may listen; `None` for any.
    pub port_range: Option<RangeInclusive<u16>>,
    /// The network interfaces to use; empty for all.
    pub interfaces: Vec<String>,
    /// How long to wait for other ranks.
    pub timeout: Duration,
}

impl BootstrapConfig {
    /// Reads and checks the settings.
    pub fn read(environment: &Environment) -> Result<Self> {
        environment.check()?;
        let choice = environment.text(name::BOOTSTRAP).unwrap_or("auto");
        let seconds: u64 = environment.value(name::TIMEOUT, |&seconds| seconds > 0)?;
        let interfaces = environment.text(name::INTERFACE).unwrap_or_default();
        Ok(Self {
            choice: match choice.trim().to_ascii_lowercase().as_str() {
                "pmix" => BootstrapChoice::Pmix,
                "pmi" => BootstrapChoice::Pmi,
                "file" => BootstrapChoice::File,
                // Nothing else passes the check.
                _ => BootstrapChoice::Auto,
            },
            directory: environment.path(name::BOOTSTRAP_DIR),
            home: environment.path("HOME"),
            runtime_directory: environment.path("XDG_RUNTIME_DIR"),
            address: environment.text(name::BOOTSTRAP_ADDR).map(str::to_owned),
            port: environment.optional(name::BOOTSTRAP_PORT)?,
            key: key_source(environment),
            port_range: port_range(environment)?,
            interfaces: interfaces
                .split(',')
                .map(str::trim)
                .filter(|interface| !interface.is_empty())
                .map(str::to_owned)
                .collect(),
            timeout: Duration::from_secs(seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<BootstrapConfig> {
        BootstrapConfig::read(&pairs.iter().copied().collect())
    }

    #[test]
    fn settings_are_read_and_nonsense_is_refused() {
        let config = read(&[
            ("HOROVOD_BOOTSTRAP", "PMIx"),
            ("HOROVOD_GLOO_IFACE", "eth0, ib0"),
            ("HOROVOD_RENDEZVOUS_PORT", "4711"),
        ])
        .unwrap();
        assert_eq!(config.choice, BootstrapChoice::Pmix);
        assert_eq!(config.interfaces, ["eth0", "ib0"]);
        assert_eq!(config.port, Some(4711));
        assert_eq!(read(&[]).unwrap().choice, BootstrapChoice::Auto);
        let error = read(&[("HOROVOD_BOOTSTRAP", "telepathy")]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`auto`, `pmix`, `pmi` or `file`")
        );
    }

    #[test]
    fn variables_can_be_set_anew() {
        let environment: Environment = [("A", "1"), ("B", "2")].into_iter().collect();
        let environment = environment.with([("B", ""), ("C", "3")]);
        let texts = ["A", "B", "C"].map(|name| environment.text(name));
        assert_eq!(texts, [Some("1"), None, Some("3")]);
    }
}
