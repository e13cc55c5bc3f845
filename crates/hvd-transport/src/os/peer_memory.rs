//! Reading another process's memory where it is, if the system lets this process do that.
//!
//! Never writes to another process. Which process and which address is the caller's knowledge; the
//! system checks both, on each call, and a wrong one is an error and nothing else.

#![expect(unsafe_code, reason = "the system call takes raw addresses")]

use std::io;

use rustix::io::Errno;

/// Fills `buffer` with what lies at `address` in the memory of `process`.
pub(crate) fn read(process: u32, address: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    let process = libc::pid_t::try_from(process).map_err(|_| Errno::SRCH)?;
    let mut address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    while !buffer.is_empty() {
        let length = match read_some(process, address, buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        address = address.checked_add(length).ok_or(Errno::FAULT)?;
        buffer = buffer.get_mut(length..).unwrap_or_default();
    }
    Ok(())
}

/// Fills a beginning of `buffer` and returns its length.
fn read_some(process: libc::pid_t, address: usize, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address),
        iov_len: buffer.len(),
    };
    // SAFETY: the system writes to `buffer` only, which is borrowed for as long. The remote address
    // is never followed by this process: the system reads it as the other one would, and refuses
    // what is not readable there.
    let length =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    fn error_of(process: u32, address: u64, length: usize) -> Option<i32> {
        let mut buffer = vec![0xee; length];
        let error = read(process, address, &mut buffer).unwrap_err();
        error.raw_os_error()
    }

    fn address_of(bytes: &[u8]) -> u64 {
        bytes.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn own_memory_is_read_as_it_is() {
        let bytes: Vec<u8> = (0..3_000_001_u32).map(|byte| (byte % 251) as u8).collect();
        let mut seen = vec![0; bytes.len()];
        read(process::id(), address_of(&bytes), &mut seen).unwrap();
        assert!(seen == bytes);
        read(process::id(), 0, &mut []).unwrap();
    }

    #[test]
    fn what_is_no_memory_is_an_error() {
        for address in [0, 1, u64::MAX - 4096, u64::MAX] {
            assert_eq!(error_of(process::id(), address, 8), Some(libc::EFAULT));
        }
    }

    #[test]
    fn what_is_no_process_is_an_error() {
        let bytes = [1; 8];
        for process in [0, i32::MAX.unsigned_abs(), u32::MAX] {
            let error = error_of(process, address_of(&bytes), 8);
            assert_eq!(error, Some(libc::ESRCH), "{process}");
        }
    }
}
