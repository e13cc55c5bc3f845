//! Listens to one agent for as long as it has anything to say, and explains its silence.

use std::{net::SocketAddr, time::Duration};

use hvd_types::Rank;
use tokio::{net::TcpStream, time::timeout};

use super::{HostEvent, HostEventSender};
use crate::{
    driver::start_agent::{LinkToAgent, Ssh},
    hosts::ssh,
    link::{Channel, LinkEvent, Loss, SILENCE},
    messages,
    process::ProcessExit,
    protocol::{AgentNotice, Opening, carry},
};

/// How long the end of an `ssh` may take to explain the end of a link, or to follow it.
const SSH_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Listens to one agent and passes on what it says.
pub(super) struct AgentReader {
    pub(super) host: usize,
    pub(super) store: Option<SocketAddr>,
    pub(super) events: HostEventSender,
}

impl AgentReader {
    pub(super) async fn run(self, mut link: LinkToAgent, mut ssh: Option<Ssh>) {
        let mut end = None;
        loop {
            let event = match next_event(&mut link, &mut ssh, &mut end).await {
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
                        Some(end) => lost_by(end, &stderr_of(ssh.as_ref())),
                        None => explain(&loss, &mut ssh).await,
                    };
                    self.send(HostEvent::Lost(why));
                    return;
                }
            }
        }
        // The agent has no more to say; its `ssh` ends with it.
        if let Some(ssh) = &mut ssh {
            ssh.close_stdin();
        }
        link.finish(SSH_END_TIMEOUT).await;
        if end.is_none() && ssh.is_some() {
            let _ = timeout(SSH_END_TIMEOUT, end_of(&mut ssh)).await;
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

/// Waits for the end of `ssh`, if there is one.
async fn end_of(ssh: &mut Option<Ssh>) -> ProcessExit {
    match ssh {
        Some(ssh) => (&mut ssh.end).await.unwrap_or(ProcessExit::Exited(0)),
        None => std::future::pending().await,
    }
}

fn stderr_of(ssh: Option<&Ssh>) -> String {
    ssh.map(Ssh::stderr).unwrap_or_default()
}

/// What the agent says next; nothing once its `ssh` has ended and it has no more to say. `end` is
/// how that `ssh` ended. The exit report of an agent may come after the end of its `ssh`, by
/// another connection: it is waited for if `ssh` ended well.
async fn next_event(
    link: &mut LinkToAgent,
    ssh: &mut Option<Ssh>,
    end: &mut Option<ProcessExit>,
) -> Option<LinkEvent<AgentNotice, Opening>> {
    if end.is_none() {
        tokio::select! {
            biased;
            event = link.next_event() => return Some(event),
            ended = end_of(ssh) => *end = Some(ended),
        }
    }
    let wait = match end {
        Some(ProcessExit::Exited(0)) => SSH_END_TIMEOUT,
        _ => Duration::ZERO,
    };
    timeout(wait, link.next_event()).await.ok()
}

/// The end of `ssh` often says more than the end of the link.
async fn explain(loss: &Loss, ssh: &mut Option<Ssh>) -> String {
    match loss {
        Loss::Silent => format!(
            "no sign of life for {:.1} s; is the host down, suspended, or cut off from here?",
            SILENCE.as_secs_f64()
        ),
        Loss::Broken(problem) if ssh.is_none() => {
            format!("{}: {problem}", messages::agent_gone())
        }
        Loss::Broken(problem) => format!("the connection to its agent broke: {problem}"),
        // Without an ssh there is nothing to wait for, and the ranks elsewhere are ending already.
        Loss::Closed if ssh.is_none() => messages::agent_gone(),
        Loss::Closed => match timeout(SSH_END_TIMEOUT, end_of(ssh)).await {
            Ok(end) => lost_by(end, &stderr_of(ssh.as_ref())),
            Err(_) => "its agent has gone".to_owned(),
        },
    }
}

/// In words, from how `ssh` ended: it passes the status of the agent on, or 255 for its own.
fn lost_by(end: ProcessExit, stderr: &str) -> String {
    let lines = ssh::said(stderr);
    let last = lines.iter().rfind(|line| !line.is_empty());
    let quoted = last.map_or_else(String::new, |line| format!(": {line}"));
    match end {
        ProcessExit::Killed(signal) => format!(
            "the ssh that held its agent was killed by signal {signal} ({})",
            messages::signal_name(signal)
        ),
        ProcessExit::Exited(255) => format!("the ssh connection to it broke{quoted}"),
        ProcessExit::Exited(code) if code > 128 => format!(
            "its agent was killed by signal {} ({})",
            code - 128,
            messages::signal_name(code - 128)
        ),
        ProcessExit::Exited(code) => format!("its agent ended with code {code}{quoted}"),
    }
}
