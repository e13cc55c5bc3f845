//! No member leaves before all have entered.
//!
//! Dissemination: in round k member i sends one byte to i + 2^k and waits for one from i - 2^k.
//! After ceil(log2(n)) rounds each member has heard, directly or through others, of all. Each
//! sends ceil(log2(n)) bytes.

use crate::{Communicator, Result};

/// Waits until every member has called this.
pub fn barrier(comm: &mut Communicator<'_>) -> Result<()> {
    let mut distance = 1;
    while distance < comm.size() {
        let (to, from) = (comm.after(distance), comm.before(distance));
        comm.exchange(Some((to, &[0])), Some((from, &mut [0])))?;
        distance *= 2;
    }
    Ok(())
}
