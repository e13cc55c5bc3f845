//! What can be wrong with the settings.

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// A setting that cannot be used. Every variant names the variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not have the form the setting asks for.
    #[error("{variable}=`{value}` is not {expected}; correct it or unset it")]
    Malformed {
        /// The environment variable.
        variable: &'static str,
        /// What it was set to.
        value: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// Some of the variables that belong together are there, this one is not.
    #[error(
        "{variable} is not set although {present} is; start the program with `horovodrun`, or set \
         all of HOROVOD_RANK, SIZE, LOCAL_RANK, LOCAL_SIZE, CROSS_RANK and CROSS_SIZE"
    )]
    Missing {
        /// The variable that is not there.
        variable: &'static str,
        /// One that is.
        present: &'static str,
    },
    /// A rank outside its group.
    #[error("{variable}={value} must be less than {limit_variable}={limit}")]
    OutOfRange {
        /// The variable that is too large.
        variable: &'static str,
        /// Its value.
        value: u32,
        /// The variable that gives the limit.
        limit_variable: &'static str,
        /// The limit.
        limit: u32,
    },
    /// A time that must not be below another one.
    #[error(
        "{variable}={value} is less than {least_variable}={least}, so it would have no effect; \
         raise it, lower {least_variable}, or unset it"
    )]
    TooSoon {
        /// The variable that is too small.
        variable: &'static str,
        /// Its value.
        value: u32,
        /// The variable it must not be below.
        least_variable: &'static str,
        /// That one's value.
        least: u32,
    },
    /// A list without an entry for each process.
    #[error(
        "{variable} has {entries} entries but {needed_variable}={needed}; give one for each \
         process of a host"
    )]
    TooFew {
        /// The variable that is too short.
        variable: &'static str,
        /// How many entries it has.
        entries: usize,
        /// The variable that says how many there must be.
        needed_variable: &'static str,
        /// How many there must be.
        needed: u32,
    },
    /// Tensors that travel through MPI cannot be encrypted.
    #[error(
        "HOROVOD_ENCRYPT=all does not apply to HOROVOD_CPU_OPERATIONS=mpi: tensors that travel through \
         MPI are not encrypted; unset one of them"
    )]
    Unencrypted,
    /// A choice that exists but that this build does not have.
    #[error(
        "{variable}=`{value}` is not supported by this build; set it to `{instead}` or unset it"
    )]
    NotInThisBuild {
        /// The variable.
        variable: &'static str,
        /// What it was set to.
        value: String,
        /// What this build has.
        instead: &'static str,
    },
}
