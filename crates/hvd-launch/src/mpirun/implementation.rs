//! Which MPI an `mpirun` belongs to, by what `mpirun --version` prints. Pure: who runs it is
//! `detect.rs`'s part.

use std::fmt;

/// The first Open MPI whose `mpirun` is PRRTE's and takes other options.
const FIRST_WITH_PRRTE: u32 = 5;

/// An MPI that `horovodrun` can write a command line for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Implementation {
    /// Open MPI up to version 4.
    OpenMpi,
    /// Open MPI from version 5 on.
    OpenMpiWithPrrte,
    /// IBM Spectrum MPI.
    Spectrum,
    /// MPICH and what is made from it, such as MVAPICH.
    Mpich,
    /// Intel MPI.
    Intel,
}

impl Implementation {
    /// Recognises the output of `mpirun --version`.
    pub(crate) fn recognise(version: &str) -> Option<Self> {
        let names_any = |words: &[&str]| words.iter().any(|word| version.contains(word));
        if names_any(&["Open MPI", "OpenRTE"]) {
            return Some(match major(version) {
                Some(major) if major >= FIRST_WITH_PRRTE => Self::OpenMpiWithPrrte,
                _ => Self::OpenMpi,
            });
        }
        if names_any(&["IBM Spectrum MPI"]) {
            return Some(Self::Spectrum);
        }
        if names_any(&["MPICH", "HYDRA"]) {
            return Some(Self::Mpich);
        }
        names_any(&["Intel(R) MPI"]).then_some(Self::Intel)
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::OpenMpiWithPrrte => "Open MPI 5 or newer",
            Self::Spectrum => "IBM Spectrum MPI",
            Self::Mpich => "MPICH",
            Self::Intel => "Intel MPI",
        })
    }
}

/// The first number of the first word that begins with a digit: 4 of `mpirun (Open MPI) 4.1.4`.
fn major(version: &str) -> Option<u32> {
    let mut words = version.split_whitespace();
    let number = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let end = number.find(|c: char| !c.is_ascii_digit());
    number[..end.unwrap_or(number.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_recognised_by_its_own_words() {
        for (version, expected) in [
            (
                "mpirun (Open MPI) 4.1.4\n\nReport bugs",
                Some(Implementation::OpenMpi),
            ),
            (
                "mpirun.openmpi (OpenRTE) 4.1.4",
                Some(Implementation::OpenMpi),
            ),
            ("mpirun (Open MPI) dev", Some(Implementation::OpenMpi)),
            (
                "mpirun (Open MPI) 5.0.11\n",
                Some(Implementation::OpenMpiWithPrrte),
            ),
            (
                "mpirun (Open MPI) 10.0rc1",
                Some(Implementation::OpenMpiWithPrrte),
            ),
            (
                "mpirun (IBM Spectrum MPI) 10.3.1.02rtm0",
                Some(Implementation::Spectrum),
            ),
            (
                "HYDRA build details:\n    Version:  4.0.2",
                Some(Implementation::Mpich),
            ),
            ("MPICH 3.3", Some(Implementation::Mpich)),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626",
                Some(Implementation::Intel),
            ),
            ("mpirun 1.0", None),
            ("", None),
        ] {
            assert_eq!(Implementation::recognise(version), expected, "{version}");
        }
    }
}
