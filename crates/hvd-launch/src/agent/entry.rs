//! How an agent comes to its work: over the standard input and output of an `ssh`, or by calling a
//! driver. It greets, gets its assignment, opens the link and says what it knows of its host.

use std::{io, path::Path, time::Duration};

use hvd_rendezvous::{AgentToken, JobKey};
use tokio::{
    io::{AsyncRead, AsyncWriteExt},
    sync::oneshot,
    time::timeout,
};

use super::{
    driver_connection,
    serve::{Agent, LinkToDriver, Secrets, question},
    stdio::{self, StdinStream, StdoutStream},
};
use crate::{
    error::{Error, Result},
    hosts::{
        facts::{self, HostFacts},
        probe::ProbePort,
        this_machine,
    },
    link::{AgentLink, SealedStream, frame, split},
    process::{Interrupts, KeyFile, spawn_detached},
    protocol::{
        ASSIGNMENT_LIMIT, AgentNotice, Assignment, GREETING, LINK_OVER_STDIO, LINK_OVER_TCP, Secret,
    },
};

/// How long a driver may take to say what is to be done.
const ASSIGNMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a host may take to say what it is.
const FACTS_TIMEOUT: Duration = Duration::from_secs(10);

/// All of an agent's life, over its standard input and output.
pub(crate) async fn serve(interrupts: &mut Interrupts, key_file: &Path) -> Result<i32> {
    let failed = Error::system("use standard input and output");
    let (mut input, mut output) = stdio::open().map_err(&failed)?;
    let greeting = format!("{GREETING}{}\n", env!("CARGO_PKG_VERSION"));
    output
        .write_all(greeting.as_bytes())
        .await
        .map_err(&failed)?;
    let Some(assignment) = timeout(ASSIGNMENT_TIMEOUT, read_assignment(&mut input))
        .await
        .unwrap_or(Ok(None))
        .map_err(&failed)?
    else {
        // The driver found something wrong, with our version perhaps, and has left.
        return Ok(0);
    };
    let Secret::Key(key) = &assignment.secret else {
        return Err(failed(io::ErrorKind::InvalidData.into()));
    };
    let key = JobKey::from_hex(key)?;
    let (link, liveness) = open_link(&assignment, &key, input, output)
        .await
        .map_err(&failed)?;
    run_agent(assignment, link, key, key_file, interrupts, liveness).await
}

/// Whom an agent that was started beforehand calls, and as whom.
#[derive(Clone)]
pub struct Calling {
    /// The driver's host and port.
    pub driver: String,
    /// The secret that both know.
    pub token: AgentToken,
    /// The name of this host in the job, if not its own.
    pub name: Option<String>,
}

impl std::fmt::Debug for Calling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calling")
            .field("driver", &self.driver)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The exit status of an agent that no driver answers.
pub(crate) const NO_DRIVER: i32 = 75;

/// Serves the driver that answers, if one does.
pub(crate) async fn call(
    calling: &Calling,
    interrupts: &mut Interrupts,
    key_file: &Path,
) -> Result<i32> {
    let failed = Error::system("speak with the driver");
    let token = calling.token.key();
    let answered = tokio::select! {
        stream = introduce(calling, &token) => stream,
        signal = interrupts.next() => return Ok(128 + signal),
    };
    let Some(stream) = answered else {
        return Ok(NO_DRIVER);
    };
    let (mut reader, writer) = split(stream).map_err(&failed)?;
    // A driver that does not expect this host hangs up.
    let assignment = timeout(ASSIGNMENT_TIMEOUT, read_assignment(&mut reader)).await;
    let Ok(Ok(Some(assignment))) = assignment else {
        return Ok(NO_DRIVER);
    };
    let Secret::Nonce(nonce) = &assignment.secret else {
        return Err(failed(io::ErrorKind::InvalidData.into()));
    };
    let key = token.derive(nonce);
    let link = AgentLink::start(reader, writer);
    run_agent(assignment, link, key, key_file, interrupts, None).await
}

async fn introduce(calling: &Calling, token: &JobKey) -> Option<SealedStream> {
    let name = calling.name.clone().unwrap_or_else(this_machine);
    let (driver, token) = (calling.driver.clone(), token.clone());
    let (sender, answer) = oneshot::channel();
    spawn_detached("hvd-call", move || {
        let _ = sender.send(driver_connection::introduce(&driver, &token, &name));
    });
    match answer.await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::info!(%error, "no driver answers");
            None
        }
        Err(_) => None,
    }
}

/// Does what the assignment says.
async fn run_agent(
    assignment: Assignment,
    link: LinkToDriver,
    key: JobKey,
    key_file: &Path,
    interrupts: &mut Interrupts,
    liveness: Option<StdinStream>,
) -> Result<i32> {
    let key_file = KeyFile::create(key_file, &key)?;
    let probe_port = ProbePort::open(assignment.port_range, &key, assignment.host)?;
    let facts = gather_facts(&assignment).await?;
    link.outgoing().send_message(&AgentNotice::Hello {
        probe_port: probe_port.number(),
        facts: Box::new(facts),
    });
    let secrets = Secrets {
        key,
        key_file,
        probe_port: Some(probe_port),
    };
    Agent::new(assignment, link, secrets)?
        .run(interrupts, liveness)
        .await
}

/// Gathers facts, on a thread of its own: a file system that is gone blocks its caller.
async fn gather_facts(assignment: &Assignment) -> Result<HostFacts> {
    let question = question(assignment);
    let (sender, facts) = oneshot::channel();
    spawn_detached("hvd-facts", move || {
        let _ = sender.send(facts::gather(&question));
    });
    let facts = timeout(FACTS_TIMEOUT, facts).await;
    facts.ok().and_then(Result::ok).ok_or_else(|| {
        Error::system("look at the working directory")(io::ErrorKind::TimedOut.into())
    })
}

/// The assignment; none if the driver has left.
async fn read_assignment(input: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Assignment>> {
    match frame::read(input, ASSIGNMENT_LIMIT).await {
        Ok(Some(bytes)) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// The link, and what is left of standard input if it is not part of that: its end is the end of
/// the driver, or of the `ssh` that started us.
async fn open_link(
    assignment: &Assignment,
    key: &JobKey,
    input: StdinStream,
    mut output: StdoutStream,
) -> io::Result<(LinkToDriver, Option<StdinStream>)> {
    let connected = driver_connection::connect_back(assignment, key).await;
    let word = if connected.is_some() {
        LINK_OVER_TCP
    } else {
        LINK_OVER_STDIO
    };
    output.write_all(format!("{word}\n").as_bytes()).await?;
    let Some(stream) = connected else {
        return Ok((AgentLink::start(input, output), None));
    };
    let (reader, writer) = split(stream)?;
    Ok((AgentLink::start(reader, writer), Some(input)))
}
