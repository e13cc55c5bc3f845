//! The driver's work for `horovodrun doctor`: check the hosts, then print the report.
//! Nothing is printed before all is known; on a terminal a line shows what is being waited for.

mod report;
mod run;

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use self::{
    report::{Colours, DoctorReport, exit_status, human, json},
    run::Doctor,
};
use crate::{
    driver::{EndCause, HostPreparation, PhaseLog, StartClock, make_key},
    error::{Error, Result},
    output::{ConsoleThread, OutputFiles},
    process::{Interrupts, Reaper, spawn_detached},
    spec::{JobSpec, ReportFormat},
};

/// How long the console may take to show what was said so far.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks the hosts and returns the exit status.
pub(super) async fn run(
    spec: &JobSpec,
    form: ReportFormat,
    interrupts: &mut Interrupts,
) -> Result<i32> {
    let console_thread = ConsoleThread::start(OutputFiles::default())?;
    let checked = tokio::select! {
        report = check_hosts(spec, &console_thread) => Ok(report),
        signal = interrupts.next() => Err(signal),
    };
    let _ = timeout(FLUSH_TIMEOUT, console_thread.finish()).await;
    let report = match checked {
        Ok(report) => report?,
        Err(signal) => return Ok(EndCause::Interrupted(signal).status()),
    };
    let text = match form {
        ReportFormat::Json => json(&report).map_err(|error| {
            let impossible = io::Error::other(error);
            Error::system("write the report as JSON")(impossible)
        })?,
        ReportFormat::Text => human(&report, colours(&spec.inherited)),
    };
    tokio::select! {
        printed = print(text) => printed
            .map(|()| exit_status(&report))
            .map_err(Error::system("write standard output")),
        signal = interrupts.next() => Ok(EndCause::Interrupted(signal).status()),
    }
}

async fn check_hosts(spec: &JobSpec, console_thread: &ConsoleThread) -> Result<DoctorReport> {
    let clock = StartClock::new(spec.start_timeout);
    let phase_log = PhaseLog::new(console_thread.sender().clone(), spec.verbosity);
    let (key, secret) = make_key(spec)?;
    let reaper = Reaper::start()?;
    let preparation = HostPreparation {
        spec,
        key: &key,
        secret,
        store: None,
        reaper: &reaper,
        phase_log: &phase_log,
    };
    let report = Doctor { preparation }.run(&clock).await;
    phase_log.clear_progress();
    report
}

/// Colours only on a terminal, and not if `NO_COLOR` is set: <https://no-color.org>.
fn colours(environment: &[(OsString, OsString)]) -> Colours {
    let is_unwanted =
        |(name, value): &(OsString, OsString)| name == "NO_COLOR" && !value.is_empty();
    if io::stdout().is_terminal() && !environment.iter().any(is_unwanted) {
        Colours::With
    } else {
        Colours::Without
    }
}

/// Writes to stdout from a thread of its own: its reader may be slow, and signals must be
/// handled meanwhile. A reader that has gone is no failure of ours.
async fn print(text: String) -> io::Result<()> {
    let (sender, done) = oneshot::channel();
    spawn_detached("hvd-report", move || {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        let _ = sender.send(written);
    });
    match done.await {
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
