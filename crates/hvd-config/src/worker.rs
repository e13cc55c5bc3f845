//! What a worker is told through its environment.

use std::time::Duration;

use hvd_types::{Placement, Rank};

use crate::environment::malformed;
use crate::setting::name;
use crate::{Environment, Error, Result};

/// Everything a worker's engine wants to know, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerConfig {
    /// Where this process stands in its job.
    pub placement: Placement,
    /// Where the ranks meet; `None` for a process that was started alone.
    pub rendezvous: Option<Rendezvous>,
    /// How long to wait for other ranks, at init and inside an operation.
    pub timeout: Duration,
    /// What moves the bytes.
    pub transport: TransportChoice,
    /// Largest fused buffer in bytes; 0 turns fusion off.
    pub fusion_threshold: u64,
    /// Least time between two rounds of negotiation.
    pub cycle_time: Duration,
    /// Number of tensors whose negotiation is remembered.
    pub cache_capacity: usize,
    /// What is logged.
    pub log_level: LogLevel,
    /// Whether log lines carry the time.
    pub log_time: bool,
}

/// The job's key-value store and the key that opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    /// Host name or address.
    pub address: String,
    /// Port.
    pub port: u16,
    /// The job's key in hexadecimal.
    pub key: String,
}

/// What moves tensors between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum TransportChoice {
    Auto,
    SharedMemory,
    Tcp,
}

/// Horovod's log levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warning,
    Error,
    Fatal,
}

impl WorkerConfig {
    /// Reads and checks the settings. The fusion threshold is rounded up to a multiple of
    /// 512 bytes per local rank, so that equal shares of a full buffer end on whole elements.
    pub fn read(environment: &Environment) -> Result<Self> {
        let placement = placement(environment)?;
        let atom = u64::from(placement.local_size) * 512;
        let threshold: u64 = environment.value(name::FUSION_THRESHOLD, |_| true)?;
        let cycle: f64 = environment.value(name::CYCLE_TIME, |&cycle| is_duration(cycle))?;
        let seconds: u64 = environment.value(name::TIMEOUT, |&seconds| seconds > 0)?;
        Ok(Self {
            rendezvous: rendezvous(environment, &placement)?,
            timeout: Duration::from_secs(seconds),
            transport: transport(environment)?,
            fusion_threshold: threshold
                .checked_next_multiple_of(atom)
                .unwrap_or(threshold),
            cycle_time: Duration::from_secs_f64(cycle / 1000.0),
            cache_capacity: environment.value(name::CACHE_CAPACITY, |_| true)?,
            log_level: LogLevel::read(environment)?,
            log_time: environment.value(name::LOG_HIDE_TIME, |&hide: &u8| hide <= 1)? == 0,
            placement,
        })
    }
}

impl LogLevel {
    /// The level the environment asks for.
    pub fn read(environment: &Environment) -> Result<Self> {
        let text = environment.text(name::LOG_LEVEL).unwrap_or("warning");
        match text.to_ascii_lowercase().as_str() {
            "trace" => Ok(Self::Trace),
            "debug" => Ok(Self::Debug),
            "info" => Ok(Self::Info),
            "warning" => Ok(Self::Warning),
            "error" => Ok(Self::Error),
            "fatal" => Ok(Self::Fatal),
            _ => Err(malformed(name::LOG_LEVEL, text)),
        }
    }
}

/// Milliseconds that are a time and not an accident.
fn is_duration(milliseconds: f64) -> bool {
    (0.0..=3_600_000.0).contains(&milliseconds)
}

fn placement(environment: &Environment) -> Result<Placement> {
    const VARIABLES: [&str; 6] = [
        name::RANK,
        name::SIZE,
        name::LOCAL_RANK,
        name::LOCAL_SIZE,
        name::CROSS_RANK,
        name::CROSS_SIZE,
    ];
    let Some(present) = VARIABLES
        .into_iter()
        .find(|name| environment.text(name).is_some())
    else {
        return Ok(Placement::alone());
    };
    let mut numbers = [0_u32; 6];
    for (number, variable) in numbers.iter_mut().zip(VARIABLES) {
        let missing = Error::Missing { variable, present };
        *number = environment.optional(variable)?.ok_or(missing)?;
    }
    let [rank, size, local_rank, local_size, cross_rank, cross_size] = numbers;
    for pair in [0, 2, 4] {
        let (value, limit) = (numbers[pair], numbers[pair + 1]);
        if value >= limit {
            let (variable, limit_variable) = (VARIABLES[pair], VARIABLES[pair + 1]);
            return Err(Error::OutOfRange {
                variable,
                value,
                limit_variable,
                limit,
            });
        }
    }
    let hostname = environment
        .text(name::HOSTNAME)
        .unwrap_or("localhost")
        .to_owned();
    let rank = Rank::new(rank);
    Ok(Placement {
        rank,
        size,
        local_rank,
        local_size,
        cross_rank,
        cross_size,
        hostname,
    })
}

fn rendezvous(environment: &Environment, placement: &Placement) -> Result<Option<Rendezvous>> {
    let address = environment.text(name::RENDEZVOUS_ADDR);
    let port = environment.optional(name::RENDEZVOUS_PORT)?;
    let key = environment.text(name::SECRET_KEY);
    if placement.size == 1 && address.is_none() {
        return Ok(None);
    }
    let missing = |variable| Error::Missing {
        variable,
        present: name::SIZE,
    };
    Ok(Some(Rendezvous {
        address: address.ok_or(missing(name::RENDEZVOUS_ADDR))?.to_owned(),
        port: port.ok_or(missing(name::RENDEZVOUS_PORT))?,
        key: key.ok_or(missing(name::SECRET_KEY))?.to_owned(),
    }))
}

fn transport(environment: &Environment) -> Result<TransportChoice> {
    let text = environment.text(name::TRANSPORT).unwrap_or("auto");
    match text.to_ascii_lowercase().as_str() {
        "auto" => Ok(TransportChoice::Auto),
        "shm" => Ok(TransportChoice::SharedMemory),
        "tcp" => Ok(TransportChoice::Tcp),
        _ => Err(malformed(name::TRANSPORT, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: [(&str, &str); 9] = [
        ("HOROVOD_RANK", "3"),
        ("HOROVOD_SIZE", "4"),
        ("HOROVOD_LOCAL_RANK", "1"),
        ("HOROVOD_LOCAL_SIZE", "2"),
        ("HOROVOD_CROSS_RANK", "1"),
        ("HOROVOD_CROSS_SIZE", "2"),
        ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"),
        ("HOROVOD_GLOO_RENDEZVOUS_PORT", "4321"),
        ("_HOROVOD_SECRET_KEY", "00"),
    ];

    fn read(changes: &[(&str, &str)]) -> Result<WorkerConfig> {
        WorkerConfig::read(&JOB.iter().chain(changes).copied().collect())
    }

    #[test]
    fn nothing_set_is_a_job_of_one() {
        let config = WorkerConfig::read(&Environment::default()).unwrap();
        assert_eq!(config.placement, Placement::alone());
        assert_eq!(config.rendezvous, None);
        assert_eq!(config.cycle_time, Duration::ZERO);
        assert_eq!(config.fusion_threshold, 128 << 20);
        assert!(config.log_time);
    }

    #[test]
    fn a_launched_worker_knows_its_place() {
        let config = read(&[]).unwrap();
        assert_eq!(config.placement.rank, Rank::new(3));
        assert_eq!(config.placement.local_size, 2);
        assert_eq!(config.rendezvous.unwrap().port, 4321);
    }

    #[test]
    fn fusion_threshold_is_rounded_up_to_whole_shares() {
        let config = read(&[("HOROVOD_FUSION_THRESHOLD", "1000")]).unwrap();
        assert_eq!(config.fusion_threshold, 1024);
        let config = read(&[("HOROVOD_FUSION_THRESHOLD", "0")]).unwrap();
        assert_eq!(config.fusion_threshold, 0);
    }

    #[test]
    fn garbage_is_an_error_that_names_the_variable() {
        for (variable, value) in [
            ("HOROVOD_FUSION_THRESHOLD", "12 MB"),
            ("HOROVOD_CYCLE_TIME", "-1"),
            ("HOROVOD_CYCLE_TIME", "NaN"),
            ("HOROVOD_CACHE_CAPACITY", "x"),
            ("HOROVOD_GLOO_TIMEOUT_SECONDS", "0"),
            ("HOROVOD_LOG_LEVEL", "loud"),
            ("HOROVOD_LOG_HIDE_TIME", "2"),
            ("HOROVOD_TRANSPORT", "pigeon"),
            ("HOROVOD_RANK", "one"),
            ("HOROVOD_GLOO_RENDEZVOUS_PORT", "70000"),
        ] {
            let error = read(&[(variable, value)]).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{variable}=`{value}` is not ")),
                "{error}"
            );
        }
    }

    #[test]
    fn half_a_placement_is_refused() {
        let environment = [("HOROVOD_RANK", "0"), ("HOROVOD_SIZE", "2")]
            .into_iter()
            .collect();
        let error = WorkerConfig::read(&environment).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("HOROVOD_LOCAL_RANK is not set although"),
            "{error}"
        );
        let error = read(&[("HOROVOD_RANK", "4")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "HOROVOD_RANK=4 is not below HOROVOD_SIZE=4"
        );
    }
}
