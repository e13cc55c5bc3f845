//! The agents of all other hosts, as the driver sees them: called together, given orders, listened
//! to. What their events mean for the job is decided by the caller.

pub(crate) mod agent_reader;
mod connect_all;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use hvd_types::Rank;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{
    agent_port::AgentPort,
    findings::AnswerTiming,
    start_agent::{AgentStart, StartedAgent},
};
use crate::{
    error::{Error, HostTrouble, Result},
    hosts::{
        facts::{self, Extra, HostFacts},
        probe::{ProbeFailure, ProbeTarget},
    },
    link::{ChannelReceiver, LinkSender},
    process::{Reaper, Stream},
    protocol::{AgentNotice, AgentOrder, Urgency},
};

use agent_reader::AgentReader;
use connect_all::{ranks_of, start_all};

/// An event of one host.
#[derive(Debug)]
pub(crate) enum HostEvent {
    /// Its agent says something.
    Message(AgentNotice),
    /// A stream of one of its ranks has begun.
    Output {
        rank: Rank,
        stream: Stream,
        receiver: ChannelReceiver,
    },
    /// No more events will come, and why.
    Lost(String),
}

type HostEventSender = mpsc::UnboundedSender<(usize, HostEvent)>;

/// The agents of a job.
pub(crate) struct Fleet {
    hosts: Vec<RemoteHost>,
    events: mpsc::UnboundedReceiver<(usize, HostEvent)>,
    /// Events that came while something else was waited for.
    deferred: VecDeque<(usize, HostEvent)>,
}

/// How a host has introduced itself.
pub(crate) struct Greeting {
    pub(crate) probe_port: u16,
    pub(crate) facts: HostFacts,
    pub(crate) timing: AnswerTiming,
    /// From the start of its `ssh` or `srun` to the first word.
    pub(crate) latency: Duration,
}

/// A host's answer about one address.
pub(crate) struct Probed {
    pub(crate) host: usize,
    pub(crate) target: ProbeTarget,
    pub(crate) result: Result<Duration, ProbeFailure>,
}

/// One host with its agent.
#[derive(Debug)]
pub(crate) struct RemoteHost {
    /// As the user wrote it.
    pub(crate) name: String,
    /// Its ranks that have not ended.
    pub(crate) running: HashSet<Rank>,
    /// Variables that all of its ranks get besides.
    pub(crate) variables: Vec<(String, String)>,
    outgoing: LinkSender,
    /// When it got its assignment.
    assigned: Instant,
    latency: Duration,
    /// The process that holds its agent.
    starter: Option<i32>,
    /// Why no more events of it will come, if so.
    pub(crate) lost: Option<String>,
    /// Whether more events of it may come.
    pub(crate) is_over: bool,
}

impl RemoteHost {
    fn greeting(&self, probe_port: u16, facts: HostFacts) -> Greeting {
        Greeting {
            probe_port,
            facts,
            timing: AnswerTiming {
                clock: facts::now(),
                round_trip: self.assigned.elapsed(),
            },
            latency: self.latency,
        }
    }
}

/// Who has come when called.
pub(crate) struct ConnectedAgents {
    /// Those who have, numbered in the order in which they were called.
    pub(crate) fleet: Fleet,
    /// Those who have not, by their place in the call.
    pub(crate) absent: BTreeMap<usize, HostTrouble>,
}

impl Fleet {
    /// Calls all agents; those that come are connected when this returns.
    pub(crate) async fn connect_all(
        starts: Vec<AgentStart>,
        port: AgentPort,
        store: Option<SocketAddr>,
        reaper: &Reaper,
        deadline: Instant,
        progress: impl Fn(&str),
    ) -> ConnectedAgents {
        let names: Vec<String> = starts
            .iter()
            .map(|one| one.assignment.name.clone())
            .collect();
        let ranks: Vec<HashSet<Rank>> = starts.iter().map(ranks_of).collect();
        let (mut arrived, absent) = start_all(starts, port, reaper, deadline, &progress).await;
        let (sender, events) = mpsc::unbounded_channel();
        let mut hosts = Vec::new();
        for (index, (name, running)) in names.into_iter().zip(ranks).enumerate() {
            let Some(StartedAgent {
                link,
                starter,
                assigned,
                latency,
            }) = arrived.remove(&index)
            else {
                continue;
            };
            hosts.push(RemoteHost {
                name,
                running,
                variables: Vec::new(),
                assigned,
                latency,
                outgoing: link.outgoing().clone(),
                starter: starter.as_ref().map(|process| process.pid.as_raw_pid()),
                lost: None,
                is_over: false,
            });
            let reader = AgentReader {
                host: hosts.len() - 1,
                store,
                events: sender.clone(),
            };
            tokio::spawn(reader.run(link, starter));
        }
        let fleet = Self {
            hosts,
            events,
            deferred: VecDeque::new(),
        };
        ConnectedAgents { fleet, absent }
    }

    /// How many hosts there are; they are numbered from 0.
    pub(crate) fn size(&self) -> usize {
        self.hosts.len()
    }

    /// A host by its number.
    pub(crate) fn host_mut(&mut self, host: usize) -> &mut RemoteHost {
        &mut self.hosts[host]
    }

    /// Waits for the next event of any host.
    pub(crate) async fn next(&mut self) -> (usize, HostEvent) {
        if let Some(event) = self.deferred.pop_front() {
            return event;
        }
        self.next_new().await
    }

    async fn next_new(&mut self) -> (usize, HostEvent) {
        match self.events.recv().await {
            Some((host, event)) => {
                if let HostEvent::Lost(why) = &event {
                    self.hosts[host].lost = Some(why.clone());
                }
                (host, event)
            }
            // Every reader has ended.
            None => std::future::pending().await,
        }
    }

    /// Waits until every host has said hello.
    pub(crate) async fn greetings(&mut self) -> Result<Vec<Greeting>> {
        let mut greetings: Vec<Option<Greeting>> = self.hosts.iter().map(|_| None).collect();
        while greetings.iter().any(Option::is_none) {
            match self.next_new().await {
                (host, HostEvent::Message(AgentNotice::Hello { probe_port, facts })) => {
                    greetings[host] = Some(self.hosts[host].greeting(probe_port, *facts));
                }
                (host, HostEvent::Lost(problem)) => return Err(self.lost(host, problem)),
                other => self.deferred.push_back(other),
            }
        }
        Ok(greetings.into_iter().flatten().collect())
    }

    /// The greetings that come until `deadline`; a host that is lost meanwhile has none.
    pub(crate) async fn greetings_until(&mut self, deadline: Instant) -> BTreeMap<usize, Greeting> {
        let all_hosts: Vec<usize> = (0..self.size()).collect();
        self.answers(&all_hosts, deadline, |host, notice| match notice {
            AgentNotice::Hello { probe_port, facts } => Some(host.greeting(probe_port, *facts)),
            _ => None,
        })
        .await
    }

    /// Has hosts ask their own programs; the answers that come until `deadline`.
    pub(crate) async fn look(
        &mut self,
        hosts: &[usize],
        deadline: Instant,
    ) -> BTreeMap<usize, Extra> {
        self.order(hosts, &AgentOrder::Look);
        self.answers(hosts, deadline, |_, notice| match notice {
            AgentNotice::Looked { extra } => Some(*extra),
            _ => None,
        })
        .await
    }

    /// Has a host measure how much gets through to an address of another one.
    pub(crate) async fn load(
        &mut self,
        host: usize,
        target: ProbeTarget,
        deadline: Instant,
    ) -> Option<Result<f64, ProbeFailure>> {
        self.order(&[host], &AgentOrder::Load(target));
        let answer = |_: &RemoteHost, notice| match notice {
            AgentNotice::Loaded { target: of, result } if of == target => Some(result),
            _ => None,
        };
        self.answers(&[host], deadline, answer).await.remove(&host)
    }

    /// Has the agents of all hosts end and waits for their exit reports, but not beyond `deadline`.
    pub(crate) async fn dismiss(&mut self, deadline: Instant) {
        self.end(Urgency::Ask);
        let all_hosts: Vec<usize> = (0..self.size()).collect();
        let goodbye = |_: &RemoteHost, notice| matches!(notice, AgentNotice::Gone).then_some(());
        self.answers(&all_hosts, deadline, goodbye).await;
    }

    fn order(&self, hosts: &[usize], order: &AgentOrder) {
        for &host in hosts {
            self.hosts[host].outgoing.send_message(order);
        }
    }

    /// The answer of each host that gives one until `deadline`; those that are lost give none.
    async fn answers<T>(
        &mut self,
        hosts: &[usize],
        deadline: Instant,
        answer: impl Fn(&RemoteHost, AgentNotice) -> Option<T>,
    ) -> BTreeMap<usize, T> {
        let mut awaited: HashSet<usize> = hosts.iter().copied().collect();
        awaited.retain(|&host| self.hosts[host].lost.is_none());
        let mut answers = BTreeMap::new();
        while !awaited.is_empty() {
            let Ok((host, event)) = timeout_at(deadline, self.next_new()).await else {
                break;
            };
            match event {
                HostEvent::Message(notice) => {
                    if let Some(said) = answer(&self.hosts[host], notice) {
                        answers.insert(host, said);
                        awaited.remove(&host);
                    }
                }
                HostEvent::Lost(_) => drop(awaited.remove(&host)),
                HostEvent::Output { .. } => {}
            }
        }
        answers
    }

    /// Has a host try addresses of others; its answers come as events.
    pub(crate) fn order_probes(&self, host: usize, targets: Vec<ProbeTarget>) {
        self.hosts[host]
            .outgoing
            .send_message(&AgentOrder::Probe(targets));
    }

    /// The next answer of any host to an order to try addresses.
    pub(crate) async fn next_probed(&mut self) -> Result<Probed> {
        loop {
            match self.next_new().await {
                (host, HostEvent::Message(AgentNotice::Probed { target, result })) => {
                    return Ok(Probed {
                        host,
                        target,
                        result,
                    });
                }
                (host, HostEvent::Lost(problem)) => return Err(self.lost(host, problem)),
                other => self.deferred.push_back(other),
            }
        }
    }

    fn lost(&self, host: usize, problem: String) -> Error {
        let host = self.hosts[host].name.clone();
        Error::OnHost {
            host,
            problem,
            code: 1,
        }
    }

    /// Has all hosts start their ranks; returns the process number of each.
    pub(crate) async fn start_ranks(&mut self) -> Result<Vec<(Rank, i32)>> {
        for host in &self.hosts {
            let variables = host.variables.clone();
            host.outgoing.send_message(&AgentOrder::Start { variables });
        }
        let (mut started, mut awaited) = (Vec::new(), self.hosts.len());
        while awaited > 0 {
            let (host, event) = self.next_new().await;
            match event {
                HostEvent::Message(AgentNotice::Started { pids }) => {
                    awaited -= 1;
                    started.extend(pids.into_iter().map(|(rank, pid)| (Rank::new(rank), pid)));
                }
                HostEvent::Message(AgentNotice::Failed { code, problem }) => {
                    let host = self.hosts[host].name.clone();
                    return Err(Error::OnHost {
                        host,
                        problem,
                        code,
                    });
                }
                HostEvent::Lost(problem) => return Err(self.lost(host, problem)),
                // What comes early, a rank's output or its end, is for the next reader of events.
                other => self.deferred.push_back((host, other)),
            }
        }
        Ok(started)
    }

    /// Ends the ranks on all hosts.
    pub(crate) fn end(&self, urgency: Urgency) {
        for host in &self.hosts {
            host.outgoing.send_message(&AgentOrder::End(urgency));
        }
    }

    /// The processes of ours through which agents are reached: none of the job's.
    pub(crate) fn processes(&self) -> HashSet<i32> {
        self.hosts.iter().filter_map(|host| host.starter).collect()
    }

    /// Whether no host has anything left to say.
    pub(crate) fn is_over(&self) -> bool {
        self.hosts.iter().all(|host| host.is_over)
    }
}
