//! The driver's work from first to last: prepare, start, let the job take its course, say the last
//! words. The phases of the start share one budget; afterwards only the job itself takes time.

use std::{net::Ipv4Addr, time::Duration};

use hvd_rendezvous::{JobKey, Server};
use tokio::time::{timeout, timeout_at};

use super::{
    course::Cause,
    files::OutputFiles,
    function::{self, Results},
    interrupts::Interrupts,
    job::{Forwarders, Job},
    sink::{Sink, Written},
    start::{Narrator, StartClock},
};
use crate::{Error, JobSpec, Result, messages, plan::Meeting};

/// How long an interrupted launcher still waits for its console.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs the job and returns its exit status.
pub(super) async fn run(spec: &JobSpec, interrupts: &mut Interrupts) -> Result<i32> {
    let clock = StartClock::new(spec.start_timeout);
    let results = spec.function.results.map(Results::open).transpose()?;
    let files = match &spec.output.directory {
        Some(directory) => OutputFiles::create(directory, spec.placements.len())?,
        None => OutputFiles::default(),
    };
    let sink = Sink::start(files)?;
    let Begun {
        mut job,
        forwarders,
        server,
    } = match begin(spec, clock, interrupts, &sink).await {
        Ok(begun) => begun,
        Err(stop) => {
            let _ = timeout(LAST_WORDS, sink.finish()).await;
            return stop.into_result();
        }
    };
    job.take_its_course(interrupts, &sink, &server).await;
    let cause = job.cause();
    let last_words = job.last_words(forwarders, sink, results, &server);
    if matches!(cause, Cause::Interrupted(_) | Cause::ReaderGone) {
        let _ = timeout(LAST_WORDS, last_words).await;
        return Ok(cause.status());
    }
    tokio::select! {
        written = last_words => Ok(match written? {
            Written::Complete => cause.status(),
            Written::FileIncomplete => cause.status().max(1),
        }),
        signal = interrupts.next() => Ok(Cause::Interrupted(signal).status()),
    }
}

/// A job whose workers run, and where they meet.
struct Begun {
    job: Job,
    forwarders: Forwarders,
    server: Server,
}

/// Why a job did not begin.
enum Stop {
    Failed(Error),
    Interrupted(i32),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Stop {
    fn into_result(self) -> Result<i32> {
        match self {
            Self::Failed(error) => Err(error),
            Self::Interrupted(signal) => Ok(Cause::Interrupted(signal).status()),
        }
    }
}

async fn begin(
    spec: &JobSpec,
    mut clock: StartClock,
    interrupts: &mut Interrupts,
    sink: &Sink,
) -> Result<Begun, Stop> {
    let narrator = Narrator::new(sink.voice().clone(), spec.verbosity);
    for placement in &spec.placements {
        narrator.tell(|| messages::planned(placement));
    }
    narrator.phase(&mut clock, "files")?;
    let key = JobKey::generate().map_err(Error::from)?;
    let server = tokio::select! {
        server = serve(spec, &key, &narrator, &mut clock) => server?,
        signal = interrupts.next() => return Err(Stop::Interrupted(signal)),
    };
    let meeting = Meeting {
        address: server.address(),
        key: &key.to_hex(),
    };
    let (job, forwarders) = Job::start(spec, meeting, sink, narrator.clone())?;
    narrator.phase(&mut clock, "spawn")?;
    Ok(Begun {
        job,
        forwarders,
        server,
    })
}

/// Starts the key-value store, with the function in it if there is one.
async fn serve(
    spec: &JobSpec,
    key: &JobKey,
    narrator: &Narrator,
    clock: &mut StartClock,
) -> Result<Server> {
    let server = Server::start((Ipv4Addr::LOCALHOST, 0), key)?;
    narrator.phase(clock, "rendezvous")?;
    if spec.function.input {
        let stored = timeout_at(clock.deadline().into(), function::store_function(&server)).await;
        stored.map_err(|_| clock.overrun("function"))??;
        narrator.phase(clock, "function")?;
    }
    Ok(server)
}
