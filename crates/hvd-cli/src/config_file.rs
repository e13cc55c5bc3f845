//! The file of `--config-file`: YAML, one section per group of options. It says what options say,
//! so it ends as the same variables. A key that means nothing is an error that names it.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Result, anyhow, bail, ensure};
use hvd_config::{SETTINGS, find_key, name};
use saphyr::{LoadableYamlNode, Scalar, Yaml};

use crate::{
    args::Exports,
    value::{exported, exported_by_key},
};

/// The key without a section.
const CONTROLLER: &str = "controller";

/// What a section says about its switch by merely being there.
const WHEN_PRESENT: [(&str, &str, &str); 2] = [
    ("autotune", name::AUTOTUNE, "0"),
    ("stall_check", name::STALL_CHECK_DISABLE, "0"),
];

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigFile {
    /// The variables of its keys.
    pub(crate) exports: Exports,
    /// The controller, in lower case.
    pub(crate) controller: Option<String>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The file, the key, and what would be right.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("configuration file {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let documents = Yaml::load_from_str(text).map_err(|error| anyhow!("{error}"))?;
        ensure!(documents.len() <= 1, "it contains more than one document");
        let mut file = Self::default();
        let Some(document) = documents.first().filter(|document| !document.is_null()) else {
            return Ok(file);
        };
        let sections = document
            .as_mapping()
            .context("it has no sections such as `params:`")?;
        for (section, content) in sections {
            file.section(&word(section)?, content)?;
        }
        Ok(file)
    }

    fn section(&mut self, section: &str, content: &Yaml<'_>) -> Result<()> {
        if section == CONTROLLER {
            return self.controller(content);
        }
        let known = sections();
        ensure!(
            known.contains(section),
            "unknown key `{section}`; known keys are `controller`, {}",
            listed(&known)
        );
        if content.is_null() {
            return Ok(());
        }
        let keys = content
            .as_mapping()
            .with_context(|| format!("`{section}` is not a mapping of keys to values"))?;
        for (key, value) in keys {
            self.key(section, &word(key)?, value)?;
        }
        for (_, variable, value) in WHEN_PRESENT.iter().filter(|(name, ..)| *name == section) {
            if self.exports.iter().all(|(given, _)| given != variable) {
                self.exports.push((variable, (*value).to_owned()));
            }
        }
        Ok(())
    }

    fn key(&mut self, section: &str, key: &str, value: &Yaml<'_>) -> Result<()> {
        let path = format!("{section}.{key}");
        let Some(setting) = find_key(&path) else {
            bail!(
                "unknown key `{path}`; `{section}` has {}",
                listed(&keys_of(section))
            );
        };
        if let Some(text) = scalar(&path, value)? {
            let value = exported_by_key(setting, &text)
                .map_err(|right| anyhow!("`{path}: {text}` is invalid; {right}"))?;
            self.exports.push((setting.variable, value));
        }
        Ok(())
    }

    fn controller(&mut self, value: &Yaml<'_>) -> Result<()> {
        if let Some(text) = scalar(CONTROLLER, value)? {
            exported(name::CONTROLLER, &text)
                .map_err(|right| anyhow!("`controller: {text}` is invalid; {right}"))?;
            self.controller = Some(text.to_ascii_lowercase());
        }
        Ok(())
    }
}

fn word(key: &Yaml<'_>) -> Result<String> {
    scalar("a key", key)?.context("a key is empty")
}

/// The text of a value, or nothing if it is left out.
fn scalar(path: &str, value: &Yaml<'_>) -> Result<Option<String>> {
    match value {
        Yaml::Value(Scalar::Null) => Ok(None),
        Yaml::Value(Scalar::Boolean(switch)) => Ok(Some(switch.to_string())),
        Yaml::Value(Scalar::Integer(number)) => Ok(Some(number.to_string())),
        Yaml::Value(Scalar::FloatingPoint(number)) => Ok(Some(number.to_string())),
        Yaml::Value(Scalar::String(text)) => Ok(Some(text.clone().into_owned())),
        _ => bail!("`{path}` is not a single value"),
    }
}

fn sections() -> BTreeSet<&'static str> {
    let paths = SETTINGS.iter().filter_map(|setting| setting.yaml);
    paths
        .filter_map(|path| Some(path.split_once('.')?.0))
        .collect()
}

fn keys_of(section: &str) -> BTreeSet<&'static str> {
    let paths = SETTINGS.iter().filter_map(|setting| setting.yaml);
    paths
        .filter_map(|path| path.split_once('.'))
        .filter(|(its_section, _)| *its_section == section)
        .map(|(_, key)| key)
        .collect()
}

fn listed(words: &BTreeSet<&str>) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "
controller: Gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 10
  cache_capacity: 2048
  hierarchical_allreduce: true
  hierarchical_allgather: no
  torus_allreduce: false
autotune:
  enabled: true
  log_file: log.txt
  warmup_samples: 5
  steps_per_sample: 20
  bayes_opt_max_samples: 50
  gaussian_process_noise: 0.2
timeline:
  filename: timeline.json
  mark_cycles: true
stall_check:
  enabled: false
  warning_time_seconds: 120
  shutdown_time_seconds: 240
library_options:
  mpi_threads_disable: true
  num_nccl_streams: 2
  thread_affinity: 1
  gloo_timeout_seconds: 60
logging:
  level: info
  with_timestamp: false
";

    fn variables(text: &str) -> Vec<String> {
        let exports = ConfigFile::parse(text).unwrap().exports;
        exports.iter().map(|(n, v)| format!("{n}={v}")).collect()
    }

    fn refusal(text: &str) -> String {
        ConfigFile::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_section_lands_in_its_variables() {
        assert_eq!(
            variables(ALL),
            [
                "HOROVOD_FUSION_THRESHOLD=33554432",
                "HOROVOD_CYCLE_TIME=10.0",
                "HOROVOD_CACHE_CAPACITY=2048",
                "HOROVOD_HIERARCHICAL_ALLREDUCE=1",
                "HOROVOD_HIERARCHICAL_ALLGATHER=0",
                "HOROVOD_TORUS_ALLREDUCE=0",
                "HOROVOD_AUTOTUNE=1",
                "HOROVOD_AUTOTUNE_LOG=log.txt",
                "HOROVOD_AUTOTUNE_WARMUP_SAMPLES=5",
                "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=20",
                "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=50",
                "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.2",
                "HOROVOD_TIMELINE=timeline.json",
                "HOROVOD_TIMELINE_MARK_CYCLES=1",
                "HOROVOD_STALL_CHECK_DISABLE=1",
                "HOROVOD_STALL_CHECK_TIME_SECONDS=120",
                "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=240",
                "HOROVOD_MPI_THREADS_DISABLE=1",
                "HOROVOD_NUM_NCCL_STREAMS=2",
                "HOROVOD_THREAD_AFFINITY=1",
                "HOROVOD_GLOO_TIMEOUT_SECONDS=60",
                "HOROVOD_LOG_LEVEL=INFO",
                "HOROVOD_LOG_HIDE_TIME=1",
            ]
        );
        let controller = ConfigFile::parse(ALL).unwrap().controller;
        assert_eq!(controller.as_deref(), Some("gloo"));
    }

    #[test]
    fn every_key_of_the_table_is_in_the_sample() {
        for setting in SETTINGS
            .iter()
            .filter(|setting| setting.yaml != Some(CONTROLLER))
        {
            let Some((_, key)) = setting.yaml.and_then(|path| path.split_once('.')) else {
                continue;
            };
            assert!(ALL.contains(&format!("  {key}: ")), "{key}");
        }
    }

    #[test]
    fn a_section_alone_says_something_about_its_switch() {
        let stall = variables("stall_check:\n  warning_time_seconds: 5\n");
        assert_eq!(stall.last().unwrap(), "HOROVOD_STALL_CHECK_DISABLE=0");
        let autotune = variables("autotune:\n  warmup_samples: 5\n");
        assert_eq!(autotune.last().unwrap(), "HOROVOD_AUTOTUNE=0");
    }

    #[test]
    fn nothing_is_fine() {
        for text in [
            "",
            "# only a comment\n",
            "params:\n",
            "params:\n  cache_capacity:\n",
        ] {
            assert_eq!(ConfigFile::parse(text).unwrap(), ConfigFile::default());
        }
    }

    #[test]
    fn mistakes_name_the_key() {
        for (text, expected) in [
            ("parms:\n  cache_capacity: 1\n", "unknown key `parms`"),
            (
                "logging:\n  hide_timestamp: 1\n",
                "unknown key `logging.hide_timestamp`",
            ),
            (
                "params:\n  cache_capacity: -1\n",
                "`params.cache_capacity: -1` is invalid",
            ),
            (
                "params:\n  cache_capacity: [1]\n",
                "`params.cache_capacity` is not a single value",
            ),
            ("params: 3\n", "`params` is not a mapping"),
            ("autotune:\n  enabled: maybe\n", "give `true` or `false`"),
            ("controller: smoke\n", "give `gloo` or `mpi`"),
            ("- params\n", "it has no sections"),
            ("params: {\n", "line"),
            (
                "params:\n  cache_capacity: 1\n  cache_capacity: 2\n",
                "duplicated key",
            ),
        ] {
            let found = refusal(text);
            assert!(found.contains(expected), "{text:?}: {found}");
        }
    }
}
