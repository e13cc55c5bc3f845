//! Listens to one agent for as long as it has anything to say, and explains its silence.

use std::{net::SocketAddr, time::Duration};

use hvd_types::Rank;
use tokio::{net::TcpStream, time::timeout};

use super::{HostEvent, HostEventSender};
use crate::{
    driver::start_agent::{LinkToAgent, StarterProcess},
    hosts::{Starter, ssh},
    link::{Channel, LinkEvent, Loss, SILENCE},
    messages,
    process::ProcessExit,
    protocol::{AgentNotice, Opening, carry},
};

/// How long the end of a starter may take to explain the end of a link, or to follow it.
const STARTER_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Listens to one agent and passes on what it says.
pub(crate) struct AgentReader {
    pub(crate) host: usize,
    pub(crate) store: Option<SocketAddr>,
    pub(crate) events: HostEventSender,
}

impl AgentReader {
    pub(crate) async fn run(self, mut link: LinkToAgent, mut starter: Option<StarterProcess>) {
        let mut end = None;
        loop {
            let event = match next_event(&mut link, &mut starter, &mut end).await {
                Some(event) => event,
                None => LinkEvent::Lost(Loss::Closed),
            };
            match event {
                LinkEvent::Message(AgentNotice::Gone) => break,
                LinkEvent::Message(AgentNotice::Leaving { why }) => {
                    self.send(HostEvent::Lost(why));
                    return;
                }
                LinkEvent::Message(notice) => self.send(HostEvent::Message(notice)),
                LinkEvent::ChannelOpened(Opening::Store, channel) => {
                    if let Some(store) = self.store {
                        tokio::spawn(connect_store(store, channel));
                    }
                }
                LinkEvent::ChannelOpened(Opening::Output { rank, stream }, channel) => {
                    let (rank, receiver) = (Rank::new(rank), channel.receiver);
                    self.send(HostEvent::Output {
                        rank,
                        stream,
                        receiver,
                    });
                }
                LinkEvent::Lost(loss) => {
                    let why = match end {
                        Some(end) => lost_by(end, starter.as_ref()),
                        None => explain(&loss, &mut starter).await,
                    };
                    self.send(HostEvent::Lost(why));
                    return;
                }
            }
        }
        // The agent has no more to say; its starter ends with it.
        if let Some(process) = &mut starter {
            process.close_stdin();
        }
        link.finish(STARTER_END_TIMEOUT).await;
        if end.is_none() && starter.is_some() {
            let _ = timeout(STARTER_END_TIMEOUT, end_of(&mut starter)).await;
        }
        self.send(HostEvent::Message(AgentNotice::Gone));
    }

    fn send(&self, event: HostEvent) {
        let _ = self.events.send((self.host, event));
    }
}

/// Connects a channel with the store.
async fn connect_store(store: SocketAddr, channel: Channel) {
    match TcpStream::connect(store).await {
        Ok(stream) => carry(stream, channel).await,
        Err(error) => tracing::warn!(%error, "a remote rank cannot be connected with the store"),
    }
}

/// Waits for the end of the starter, if there is one.
async fn end_of(starter: &mut Option<StarterProcess>) -> ProcessExit {
    match starter {
        Some(process) => (&mut process.end).await.unwrap_or(ProcessExit::Exited(0)),
        None => std::future::pending().await,
    }
}

/// What the agent says next; nothing once its starter has ended and it has no more to say. `end` is
/// how that ended. The exit report of an agent may come after the end of its starter, by another
/// connection: it is waited for if the starter ended well.
async fn next_event(
    link: &mut LinkToAgent,
    starter: &mut Option<StarterProcess>,
    end: &mut Option<ProcessExit>,
) -> Option<LinkEvent<AgentNotice, Opening>> {
    if end.is_none() {
        tokio::select! {
            biased;
            event = link.next_event() => return Some(event),
            ended = end_of(starter) => *end = Some(ended),
        }
    }
    let wait = match end {
        Some(ProcessExit::Exited(0)) => STARTER_END_TIMEOUT,
        _ => Duration::ZERO,
    };
    timeout(wait, link.next_event()).await.ok()
}

/// The end of the starter often says more than the end of the link.
async fn explain(loss: &Loss, starter: &mut Option<StarterProcess>) -> String {
    match loss {
        Loss::Silent => format!(
            "no sign of life for {:.1} s; is the host down, suspended, or cut off from here?",
            SILENCE.as_secs_f64()
        ),
        Loss::Broken(problem) if starter.is_none() => {
            format!("{}: {problem}", messages::agent_gone())
        }
        Loss::Broken(problem) => format!("the connection to its agent broke: {problem}"),
        // Without a starter there is nothing to wait for, and the ranks elsewhere are ending already.
        Loss::Closed if starter.is_none() => messages::agent_gone(),
        Loss::Closed => match timeout(STARTER_END_TIMEOUT, end_of(starter)).await {
            Ok(end) => lost_by(end, starter.as_ref()),
            Err(_) => "its agent has gone".to_owned(),
        },
    }
}

/// In words, from how the starter ended: it passes the status of the agent on; ssh has 255 for its
/// own.
fn lost_by(end: ProcessExit, starter: Option<&StarterProcess>) -> String {
    let stderr = starter.map(StarterProcess::stderr).unwrap_or_default();
    let program = starter.map_or(Starter::Ssh, |process| process.kind);
    let lines = ssh::said(&stderr);
    let last = lines.iter().rfind(|line| !line.is_empty());
    let quoted = last.map_or_else(String::new, |line| format!(": {line}"));
    match end {
        ProcessExit::Killed(signal) => format!(
            "the {} that held its agent was killed by signal {signal} ({})",
            program.program(),
            messages::signal_name(signal)
        ),
        ProcessExit::Exited(255) if program == Starter::Ssh => {
            format!("the ssh connection to it broke{quoted}")
        }
        ProcessExit::Exited(code) if code > 128 => format!(
            "its agent was killed by signal {} ({})",
            code - 128,
            messages::signal_name(code - 128)
        ),
        ProcessExit::Exited(code) => format!("its agent ended with code {code}{quoted}"),
    }
}
