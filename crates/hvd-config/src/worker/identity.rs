//! Where a worker stands in its job and where the ranks meet: all of it, or none of it for a process
//! that was started alone.

use std::fmt;
use std::path::PathBuf;

use hvd_types::{Placement, Rank};

use crate::setting::name;
use crate::{Environment, Error, Result};

/// The job's key-value store and the key that opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RendezvousConfig {
    /// Host name or address.
    pub address: String,
    /// Port.
    pub port: u16,
    /// Where the job's key is.
    pub key: KeySource,
}

/// How a worker gets the job's key.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// It is this text, in hexadecimal; never shown.
    Text(String),
    /// It stands in this file.
    File(PathBuf),
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(secret)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

const VARIABLES: [&str; 6] = [
    name::RANK,
    name::SIZE,
    name::LOCAL_RANK,
    name::LOCAL_SIZE,
    name::CROSS_RANK,
    name::CROSS_SIZE,
];

/// One of the variables that tell a process its place, if any is set.
fn present(environment: &Environment) -> Option<&'static str> {
    VARIABLES
        .into_iter()
        .find(|name| environment.text(name).is_some())
}

/// Whether this process is told its place.
pub(super) fn is_given(environment: &Environment) -> bool {
    present(environment).is_some()
}

pub(super) fn placement(environment: &Environment) -> Result<Placement> {
    let Some(present) = present(environment) else {
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

pub(super) fn rendezvous(
    environment: &Environment,
    placement: &Placement,
) -> Result<Option<RendezvousConfig>> {
    let address = environment.text(name::RENDEZVOUS_ADDR);
    let port = environment.optional(name::RENDEZVOUS_PORT)?;
    let key = key_source(environment);
    if placement.size == 1 && address.is_none() {
        return Ok(None);
    }
    let missing = |variable| Error::Missing {
        variable,
        present: name::SIZE,
    };
    Ok(Some(RendezvousConfig {
        address: address.ok_or(missing(name::RENDEZVOUS_ADDR))?.to_owned(),
        port: port.ok_or(missing(name::RENDEZVOUS_PORT))?,
        key: key.ok_or(missing(name::SECRET_KEY_FILE))?,
    }))
}

/// The job's key, if it is given.
pub(crate) fn key_source(environment: &Environment) -> Option<KeySource> {
    let file = environment.path(name::SECRET_KEY_FILE).map(KeySource::File);
    file.or_else(|| {
        let text = environment.text(name::SECRET_KEY)?;
        Some(KeySource::Text(text.to_owned()))
    })
}
