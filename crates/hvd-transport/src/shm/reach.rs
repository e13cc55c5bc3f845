//! What a member of [`SharedSlots`] reads straight out of another member's own memory.
//!
//! Where that lies, the other one has told; it is believed as far as the system is asked. That the
//! bytes are there, and not written to meanwhile, the members see to by taking turns.

use std::time::Duration;

use super::shared_slots::SharedSlots;
use super::slot_wait::expect_end;
use crate::os::peer_memory;
use crate::{Error, Result};

/// How long after a failed read the reason may take to arrive: the end of another rank, which the
/// lifelines tell of within milliseconds.
const NEWS: Duration = Duration::from_secs(2);

/// A place in the memory of a process of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the process, as this rank's system counts.
    pub process: u32,
    /// Address of the first byte.
    pub address: u64,
}

impl Place {
    /// The place so many bytes further on; an address that cannot be is refused when it is read.
    #[must_use]
    pub fn after(self, bytes: usize) -> Self {
        let address = self.address.saturating_add(bytes as u64);
        Self { address, ..self }
    }

    /// Fills `buffer` from there; false if the system refuses.
    pub fn try_read(self, buffer: &mut [u8]) -> bool {
        peer_memory::read(self.process, self.address, buffer).is_ok()
    }
}

impl SharedSlots<'_> {
    /// Fills `buffer` from a place in the memory of the member at `position`, which must have been
    /// readable when the operation began.
    ///
    /// A read fails in the middle if the member has died, or has left because another one died and
    /// uses its memory for something else. The job's end therefore comes first among the errors.
    pub fn read(&mut self, position: usize, place: Place, buffer: &mut [u8]) -> Result<()> {
        let Err(source) = peer_memory::read(place.process, place.address, buffer) else {
            return Ok(());
        };
        expect_end(
            self.context,
            self.rings,
            NEWS.min(self.context.progress_timeout),
        )?;
        let rank = self.group[position].rank;
        Err(Error::Unreadable {
            rank,
            host: self.context.hosts[rank.index()].clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use hvd_types::Rank;

    use crate::testing::{Setup, Wire};
    use crate::{Failure, Mesh, Place, SharedSlots};

    /// What rank 0 gets that reads from nowhere, perhaps after the end of the job.
    fn refused(wire: Wire, gone: Option<u32>) -> String {
        let progress_timeout = std::time::Duration::from_millis(50);
        let mut mesh: Vec<Mesh> = Setup::new(wire, 4)
            .progress_timeout(progress_timeout)
            .build();
        if let Some(rank) = gone {
            mesh[0].abort.raise(Failure {
                rank: Rank::new(rank),
                host: "h".to_owned(),
                reason: "is gone".to_owned(),
            });
        }
        let members = [0, 1].map(Rank::new);
        let mut slots: SharedSlots<'_> = mesh[0].transport.shared_slots(&members).unwrap();
        let place = Place {
            process: process::id(),
            address: 8,
        };
        assert!(!place.try_read(&mut [0]));
        let error = slots.read(1, place, &mut [0; 4]).unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_failed_read_names_the_member() {
        for wire in [Wire::SharedMemory, Wire::Mixed] {
            let error = refused(wire, None);
            assert!(error.starts_with("rank 1 on host "), "{error}");
            assert!(
                error.contains("no longer lets this rank read its memory"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_failed_read_is_put_down_to_whoever_died() {
        for wire in [Wire::SharedMemory, Wire::Mixed] {
            assert_eq!(refused(wire, Some(3)), "rank 3 on host `h` is gone");
        }
    }
}
