//! How long a wait for connections looks before it sleeps.
//!
//! Falling asleep and being woken costs tens of microseconds, more where the core goes idle
//! meanwhile; an answer over the network of one building takes about as long. So a wait for which
//! somebody waits in turn looks at the connections over and over for a while, unless
//!
//! - ranks outnumber the cores of this machine,
//! - the last wait was long: then so is this one, as a rule,
//! - while the last one looked, somebody else was given this core. Then there are none to spare, and
//!   whoever looks is in the way of those it waits for; it is not tried again for [`PAUSE`].

use std::io;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use crate::os::event::poll;

/// The longest time that a wait looks: longer than a message takes between hosts of one network,
/// shorter than anybody would miss a core for.
const LONGEST: Duration = Duration::from_micros(400);

/// Time between two looks, of a microsecond each, after which the core was somebody else's
/// meanwhile. Interrupts take less, and a slice of the scheduler more.
const ABSENCE: Duration = Duration::from_micros(200);

/// How long nobody looks after that.
const PAUSE: Duration = Duration::from_millis(50);

/// What is known of the waits of one rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vigil {
    /// Whether every rank has a core of its own.
    has_cores: bool,
    was_short: bool,
    paused_until: Option<Instant>,
}

impl Vigil {
    pub(super) fn new(has_cores: bool) -> Self {
        Self {
            has_cores,
            was_short: true,
            paused_until: None,
        }
    }

    /// Until when a wait that begins at `start` looks; none if it does not.
    fn until(&self, start: Instant) -> Option<Instant> {
        let is_paused = self.paused_until.is_some_and(|end| start < end);
        (self.has_cores && self.was_short && !is_paused).then(|| start + LONGEST)
    }

    /// Waits until one of `fds` is ready, first looking and then asleep; false if `deadline`
    /// passed first.
    pub(super) fn wait(
        &mut self,
        fds: &mut [PollFd<'_>],
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        let start = Instant::now();
        let in_time = match self.until(start) {
            Some(end) if self.look(fds, start, end)? => true,
            _ => poll(fds, deadline)?,
        };
        self.was_short = start.elapsed() <= LONGEST;
        Ok(in_time)
    }

    /// Looks at `fds` until `end`; false if none is ready by then.
    fn look(&mut self, fds: &mut [PollFd<'_>], start: Instant, end: Instant) -> io::Result<bool> {
        let mut before = start;
        loop {
            let is_ready = poll(fds, Some(before))?;
            let now = Instant::now();
            if now - before > ABSENCE {
                self.paused_until = Some(now + PAUSE);
                return Ok(is_ready);
            }
            if is_ready || now >= end {
                return Ok(is_ready);
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::PollFlags;

    use super::*;
    use crate::os::event::Flag;

    #[test]
    fn a_wait_looks_while_its_like_are_short_and_the_core_is_its_own() {
        let now = Instant::now();
        let mut vigil = Vigil::new(true);
        assert_eq!(vigil.until(now), Some(now + LONGEST));
        vigil.was_short = false;
        assert_eq!(vigil.until(now), None);
        vigil.was_short = true;
        vigil.paused_until = Some(now + PAUSE);
        assert_eq!(vigil.until(now), None);
        assert_eq!(vigil.until(now + PAUSE), Some(now + PAUSE + LONGEST));
    }

    #[test]
    fn nobody_looks_where_ranks_outnumber_cores() {
        assert_eq!(Vigil::new(false).until(Instant::now()), None);
    }

    #[test]
    fn long_waits_end_by_their_event_or_deadline_and_are_remembered() {
        let flag = Flag::new().unwrap();
        let mut vigil = Vigil::new(true);
        let wait = |vigil: &mut Vigil| {
            let deadline = Instant::now() + 3 * LONGEST;
            vigil.wait(&mut [PollFd::new(&flag, PollFlags::IN)], Some(deadline))
        };
        assert!(!wait(&mut vigil).unwrap());
        assert!(!vigil.was_short);
        flag.raise();
        assert!(wait(&mut vigil).unwrap());
    }
}
