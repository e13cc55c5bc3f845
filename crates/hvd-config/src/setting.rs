//! The table of settings: what there is, what it may be, and what it means.

/// One setting as users see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The environment variable.
    pub variable: &'static str,
    /// What a value looks like, as the end of a sentence: `is not {expected}`.
    pub expected: &'static str,
    /// The default as text; empty if there is none.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub meaning: &'static str,
}

/// Names of variables, for those who write them.
pub mod name {
    #![expect(missing_docs, reason = "each is described in SETTINGS")]
    pub const RANK: &str = "HOROVOD_RANK";
    pub const SIZE: &str = "HOROVOD_SIZE";
    pub const LOCAL_RANK: &str = "HOROVOD_LOCAL_RANK";
    pub const LOCAL_SIZE: &str = "HOROVOD_LOCAL_SIZE";
    pub const CROSS_RANK: &str = "HOROVOD_CROSS_RANK";
    pub const CROSS_SIZE: &str = "HOROVOD_CROSS_SIZE";
    pub const HOSTNAME: &str = "HOROVOD_HOSTNAME";
    pub const RENDEZVOUS_ADDR: &str = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
    pub const RENDEZVOUS_PORT: &str = "HOROVOD_GLOO_RENDEZVOUS_PORT";
    pub const SECRET_KEY: &str = "_HOROVOD_SECRET_KEY";
    pub const TIMEOUT: &str = "HOROVOD_GLOO_TIMEOUT_SECONDS";
    pub const TRANSPORT: &str = "HOROVOD_TRANSPORT";
    pub const FUSION_THRESHOLD: &str = "HOROVOD_FUSION_THRESHOLD";
    pub const CYCLE_TIME: &str = "HOROVOD_CYCLE_TIME";
    pub const CACHE_CAPACITY: &str = "HOROVOD_CACHE_CAPACITY";
    pub const LOG_LEVEL: &str = "HOROVOD_LOG_LEVEL";
    pub const LOG_HIDE_TIME: &str = "HOROVOD_LOG_HIDE_TIME";
    pub const START_TIMEOUT: &str = "HOROVOD_START_TIMEOUT";
}

const COUNT: &str = "a whole number, 0 or more";
const POSITIVE: &str = "a whole number, 1 or more";
const FLAG: &str = "0 or 1";

/// Every setting, in the order of the reference page.
pub const SETTINGS: &[Setting] = &[
    set_by_launcher(name::RANK, COUNT, "Number of this process in the job."),
    set_by_launcher(name::SIZE, POSITIVE, "Number of processes in the job."),
    set_by_launcher(
        name::LOCAL_RANK,
        COUNT,
        "Number of this process on its host.",
    ),
    set_by_launcher(
        name::LOCAL_SIZE,
        POSITIVE,
        "Number of processes on this host.",
    ),
    set_by_launcher(
        name::CROSS_RANK,
        COUNT,
        "Position of this host among the hosts that have a process with this local rank.",
    ),
    set_by_launcher(name::CROSS_SIZE, POSITIVE, "Number of such hosts."),
    set_by_launcher(
        name::HOSTNAME,
        "a host name",
        "Name of this host as given to the launcher.",
    ),
    set_by_launcher(
        name::RENDEZVOUS_ADDR,
        "a host name or address",
        "Where the job's key-value store listens.",
    ),
    set_by_launcher(
        name::RENDEZVOUS_PORT,
        "a port number",
        "Port of the job's key-value store.",
    ),
    set_by_launcher(
        name::SECRET_KEY,
        "64 hexadecimal digits",
        "The job's key; every connection proves that it knows it.",
    ),
    setting(
        name::TIMEOUT,
        "a number of seconds, 1 or more",
        "30",
        "How long ranks wait for each other at init, and for a peer that makes no progress.",
    ),
    setting(
        name::TRANSPORT,
        "`auto`, `shm` or `tcp`",
        "auto",
        "What moves tensors between ranks; `auto` takes shared memory inside one host.",
    ),
    setting(
        name::FUSION_THRESHOLD,
        "a number of bytes, 0 or more",
        "134217728",
        "Largest sum of small tensors that travel as one; 0 turns fusion off.",
    ),
    setting(
        name::CYCLE_TIME,
        "a number of milliseconds, 0 or more",
        "0",
        "Least time between two rounds of negotiation; 0 answers as soon as a tensor is ready.",
    ),
    setting(
        name::CACHE_CAPACITY,
        COUNT,
        "1024",
        "Number of tensors whose negotiation is remembered; 0 remembers none.",
    ),
    setting(
        name::LOG_LEVEL,
        "`trace`, `debug`, `info`, `warning`, `error` or `fatal`",
        "warning",
        "Least important messages that are printed.",
    ),
    setting(
        name::LOG_HIDE_TIME,
        FLAG,
        "0",
        "1 leaves the time out of log lines.",
    ),
    setting(
        name::START_TIMEOUT,
        "a number of seconds, 0 or more",
        "30",
        "How long `horovodrun` may take before the workers run; 0 means the default.",
    ),
];

const fn setting(
    variable: &'static str,
    expected: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting {
        variable,
        expected,
        default,
        meaning,
    }
}

const fn set_by_launcher(
    variable: &'static str,
    expected: &'static str,
    meaning: &'static str,
) -> Setting {
    setting(variable, expected, "", meaning)
}

/// The setting of a variable.
pub fn find(variable: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.variable == variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_declared_once() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            let first = SETTINGS
                .iter()
                .position(|other| other.variable == setting.variable);
            assert_eq!(first, Some(index), "{} is declared twice", setting.variable);
            assert!(
                setting.meaning.ends_with('.'),
                "{}: not a sentence",
                setting.variable
            );
        }
    }
}
