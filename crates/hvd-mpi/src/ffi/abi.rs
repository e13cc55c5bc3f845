//! The binary interfaces of MPI libraries. They agree on the names and arguments of functions, and
//! differ in what a handle is and in the values of constants.
//!
//! | ABI | libraries | handles |
//! |---|---|---|
//! | Open MPI | Open MPI, Spectrum MPI, HPC-X | pointers; the predefined ones are exported objects |
//! | MPICH | MPICH, Intel MPI, MVAPICH, Cray MPICH | integers |
//! | standard | `libmpi_abi` of MPI 5 | pointers; the predefined ones are small numbers |
//!
//! The values are those of each library's `mpi.h`, and `mpi_abi.h` for the standard ABI.

use std::ffi::{CStr, c_int};
use std::fmt;

use super::library::DynamicLibrary;

/// A binary interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abi {
    OpenMpi,
    Mpich,
    Standard,
}

impl fmt::Display for Abi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "the ABI of Open MPI",
            Self::Mpich => "the ABI of MPICH",
            Self::Standard => "the standard ABI of MPI 5",
        })
    }
}

/// What a predefined communicator of Open MPI is exported as.
const OPEN_MPI_WORLD: &CStr = c"ompi_mpi_comm_world";

/// What `MPI_DUP_FN` is in MPICH's header, and therefore exported by all with its ABI.
const MPICH_DUP_FN: &CStr = c"MPIR_Dup_fn";

/// A function that came with the standard ABI.
const ABI_VERSION: &CStr = c"MPI_Abi_get_version";

impl Abi {
    /// Which one a library has, by the symbols that it exports; none if it is not MPI.
    pub(crate) fn of(library: DynamicLibrary) -> Option<Self> {
        let has = |name| library.symbol(name).is_some();
        if !has(c"MPI_Init_thread") {
            None
        } else if has(OPEN_MPI_WORLD) {
            Some(Self::OpenMpi)
        } else if has(MPICH_DUP_FN) {
            Some(Self::Mpich)
        } else if has(ABI_VERSION) {
            Some(Self::Standard)
        } else {
            None
        }
    }
}

/// How a handle is passed: as an `int`, or as an address.
pub(super) trait MpiHandle: Copy + Send + Sync + fmt::Debug + 'static {
    /// The handle as a word that stands for it where the ABI is not known.
    fn word(self) -> usize;

    /// The handle that a word stands for.
    fn of_word(word: usize) -> Self;
}

impl MpiHandle for c_int {
    fn word(self) -> usize {
        self.cast_unsigned() as usize
    }

    #[expect(clippy::cast_possible_truncation, reason = "it was widened by `word`")]
    fn of_word(word: usize) -> Self {
        (word as u32).cast_signed()
    }
}

impl MpiHandle for usize {
    fn word(self) -> usize {
        self
    }

    fn of_word(word: usize) -> Self {
        word
    }
}

/// The predefined handles and numbers that are used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Constants<H> {
    /// `MPI_COMM_WORLD`
    pub(super) world: H,
    /// `MPI_BYTE`
    pub(super) byte: H,
    /// `MPI_ERRORS_RETURN`
    pub(super) errors_return: H,
    /// `MPI_REQUEST_NULL`, only to have a value before a request is made.
    pub(super) no_request: H,
    /// `MPI_COMM_NULL`, likewise.
    pub(super) no_communicator: H,
    /// `MPI_THREAD_SERIALIZED` and `MPI_THREAD_MULTIPLE`.
    pub(super) serialized: c_int,
    pub(super) multiple: c_int,
}

/// Of MPICH.
pub(super) const MPICH: Constants<c_int> = Constants {
    world: 0x4400_0000,
    byte: 0x4c00_010d,
    errors_return: 0x5400_0001,
    no_request: 0x2c00_0000,
    no_communicator: 0x0400_0000,
    serialized: 2,
    multiple: 3,
};

/// Of the standard ABI.
pub(super) const STANDARD: Constants<usize> = Constants {
    world: 0x101,
    byte: 0x247,
    errors_return: 0x143,
    no_request: 0x180,
    no_communicator: 0x100,
    serialized: 2048,
    multiple: 4096,
};

/// Of Open MPI, where handles are the addresses of objects; the name of a missing one otherwise.
pub(super) fn open_mpi(library: DynamicLibrary) -> Result<Constants<usize>, &'static CStr> {
    let address = |name| {
        let symbol = library.symbol(name);
        symbol.map(|at| at.as_ptr() as usize).ok_or(name)
    };
    Ok(Constants {
        world: address(OPEN_MPI_WORLD)?,
        byte: address(c"ompi_mpi_byte")?,
        errors_return: address(c"ompi_mpi_errors_return")?,
        no_request: address(c"ompi_request_null")?,
        no_communicator: address(c"ompi_mpi_comm_null")?,
        serialized: 2,
        multiple: 3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_handles() {
        for handle in [0, 1, -1, MPICH.world, c_int::MIN, c_int::MAX] {
            assert_eq!(c_int::of_word(handle.word()), handle);
        }
        assert_eq!(usize::of_word(usize::MAX.word()), usize::MAX);
    }

    #[test]
    fn a_library_without_mpi_has_no_abi() {
        assert_eq!(Abi::of(DynamicLibrary::open("libc.so.6").unwrap()), None);
    }
}
