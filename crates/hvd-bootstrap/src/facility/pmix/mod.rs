//! PMIx: how Open MPI's launchers and `srun --mpi=pmix` let processes exchange values. The library is
//! opened at run time; no MPI library is touched.
//!
//! MPI in the same process (`mpi4py`) uses the same library, after this or before, and what it can
//! bear depends on the version:
//!
//! - `PMIX-1` before version 5 the connection to the launcher is held until the process exits: MPI
//!   could not be initialised after its end.
//! - `PMIX-2` from version 5 on MPI could not be initialised while it is held, and ending it twice in
//!   one process aborts. Unless MPI is initialised already, a process of its own does the exchange
//!   ([`helper`]).
//! - `PMIX-3` the library is used once in the life of a process.
//! - `PMIX-4` the connection is ended, or the launcher would report a process that exits as one that
//!   failed.

mod ffi;
mod helper;
mod library;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hvd_config::Environment;

use self::ffi::{Api, Process};
pub(crate) use self::helper::{PmixHelper, run as run_helper};
use super::Facility;
use crate::loaded;

/// The key of the announcement.
const KEY: &std::ffi::CStr = c"horovod";

/// How long a call that waits for no other rank may take.
pub(super) const STEP: Duration = Duration::from_secs(20);

/// How long the end of a process may be held up.
const FINALIZE_TIMEOUT: Duration = Duration::from_secs(5);

/// The first version that must not be held.
const FIRST_TO_END: u32 = 5;

/// `PMIX-3`
static OPENED: AtomicBool = AtomicBool::new(false);

/// A connection to the launcher.
pub(crate) struct Pmix {
    api: Api,
    process: Process,
    hold: Hold,
    state: State,
}

/// Until when the connection is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    UntilExit,
    UntilShared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A call has not returned, so no other may be made.
    Stuck,
    Ended,
}

impl Pmix {
    pub(crate) fn open(environment: &Environment) -> Result<Self, String> {
        let api = library::open(environment)?;
        if OPENED.swap(true, Ordering::Relaxed) {
            return Err(
                "PMIx was used before in this process and failed; start the job again".to_owned(),
            );
        }
        let process = within(STEP, move || api.init()).unwrap_or_else(|| Err(late("PMIx_Init")))?;
        Ok(Self {
            api,
            process,
            hold: hold(environment),
            state: State::Open,
        })
    }

    fn end(&mut self) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Ended;
        let api = self.api;
        match within(FINALIZE_TIMEOUT, move || api.finalize()) {
            Some(Ok(())) => {}
            Some(Err(reason)) => tracing::info!("{reason}"),
            None => tracing::info!("{}", late("PMIx_Finalize")),
        }
    }
}

/// `PMIX-1` and `PMIX-2`; the launcher says which version it is.
fn hold(environment: &Environment) -> Hold {
    let version = environment.text("PMIX_VERSION").unwrap_or_default();
    let major = version
        .split('.')
        .next()
        .and_then(|text| text.trim().parse::<u32>().ok());
    match major {
        Some(major) if major >= FIRST_TO_END => Hold::UntilShared,
        _ => Hold::UntilExit,
    }
}

/// Whether the exchange has to happen outside of this process.
pub(super) fn needs_helper(environment: &Environment) -> bool {
    hold(environment) == Hold::UntilShared && !loaded::mpi_is_initialized()
}

/// What a call returns, if it does in time. If not, its thread is left behind: nothing can end it.
fn within<T: Send + 'static>(
    timeout: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, result) = mpsc::channel();
    let named = thread::Builder::new().name("hvd-pmix".to_owned());
    named.spawn(move || sender.send(call())).ok()?;
    result.recv_timeout(timeout).ok()
}

fn late(function: &str) -> String {
    format!("{function} does not return; is the launcher still running?")
}

impl Facility for Pmix {
    fn name(&self) -> String {
        "PMIx".to_owned()
    }

    fn size(&mut self) -> Option<u32> {
        self.api.job_size(&self.process).ok()
    }

    fn share(&mut self, text: Option<&str>, end: Instant) -> Result<String, String> {
        if let Some(text) = text {
            self.api.put(KEY, text)?;
        }
        let (api, left) = (self.api, end.saturating_duration_since(Instant::now()));
        let Some(met) = within(left, move || api.fence()) else {
            self.state = State::Stuck;
            return Err(format!(
                "not all ranks have called hvd.init() within {} s, or some use another way than \
                 PMIx; HOROVOD_GLOO_TIMEOUT_SECONDS is how long to wait",
                left.as_secs()
            ));
        };
        met?;
        if let Some(text) = text {
            return Ok(text.to_owned());
        }
        self.api.text(&self.process.peer(0), KEY)
    }

    fn shared(&mut self) {
        if self.hold == Hold::UntilShared {
            self.end();
        }
    }

    fn finish(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pmix_1_the_version_decides_how_long_it_is_held() {
        let of = |version: &str| hold(&[("PMIX_VERSION", version)].into_iter().collect());
        assert_eq!(of("4.2.2"), Hold::UntilExit);
        assert_eq!(of("3.1.5rc4"), Hold::UntilExit);
        assert_eq!(of("5.0.11a1"), Hold::UntilShared);
        assert_eq!(of("6.0"), Hold::UntilShared);
        assert_eq!(hold(&Environment::default()), Hold::UntilExit);
    }

    #[test]
    fn a_call_that_never_returns_is_left_behind() {
        let (_sender, never) = mpsc::channel::<()>();
        assert_eq!(
            within(Duration::from_millis(10), move || never.recv()),
            None
        );
        assert_eq!(within(Duration::from_secs(10), || 7), Some(7));
    }
}
