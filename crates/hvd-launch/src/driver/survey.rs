//! Which address each host uses for each other one: every host tries every address of every other,
//! the driver gathers the answers, and `hosts::choose` decides.

use std::{collections::HashMap, net::IpAddr, time::Duration};

use hvd_rendezvous::JobKey;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::fleet::{Fleet, Probed};
use crate::{
    error::Result,
    hosts::{
        AddressRules, Candidate, HostAddresses, Probe, Reachability, choose,
        facts::{Container, HostFacts},
        measure::{PROBE_TIMEOUT, probe_all},
        probe::{ProbeFailure, ProbeTarget},
        targets,
    },
};

/// How much longer better addresses may take once every host is reached somehow.
const GRACE: Duration = Duration::from_millis(150);

/// One host of the job, as the survey sees it.
pub(crate) struct Site {
    /// By which its agent answers probes.
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) facts: HostFacts,
    pub(crate) probe_port: u16,
    /// What its name leads to.
    pub(crate) resolved: Vec<IpAddr>,
    pub(crate) advertised: Vec<IpAddr>,
    /// Its number in the fleet; none for the driver's own host.
    pub(crate) agent: Option<usize>,
}

/// Whether all answers are waited for, or only as many as are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thoroughness {
    Enough,
    All,
}

/// What a survey has found.
pub(crate) struct SurveyResult {
    pub(crate) found: Reachability,
    answers: ProbeAnswers,
}

impl SurveyResult {
    /// Why the best address of `to` is of no use to `from`; no address if there was none to try.
    pub(crate) fn failure(&self, from: usize, to: usize) -> (Option<IpAddr>, ProbeFailure) {
        let Some(&address) = self.answers.wanted[to].first() else {
            let nothing = ProbeFailure::Other("it has no address to try".to_owned());
            return (None, nothing);
        };
        let results = self.answers.results.get(&(from, to, address));
        let failure = results.and_then(|result| result.clone().err());
        (Some(address), failure.unwrap_or(ProbeFailure::TimedOut))
    }
}

/// Has all sites try each other.
pub(crate) async fn survey(
    sites: &[Site],
    fleet: &mut Fleet,
    key: &JobKey,
    rules: &AddressRules,
    thoroughness: Thoroughness,
) -> Result<SurveyResult> {
    let hosts: Vec<HostAddresses> = sites.iter().map(addresses).collect();
    let mut answers = ProbeAnswers::new(sites, &hosts, rules);
    let (sender, mut own) = mpsc::unbounded_channel();
    for (from, site) in sites.iter().enumerate() {
        let targets = answers.targets_of(from, sites);
        if let Some(agent) = site.agent {
            fleet.order_probes(agent, targets);
        } else {
            let sender = sender.clone();
            let tell = move |target, result| drop(sender.send((from, target, result)));
            probe_all(targets, key, tell);
        }
    }
    let mut end = Instant::now() + PROBE_TIMEOUT + GRACE;
    let mut is_enough = false;
    while !answers.is_complete(thoroughness) {
        let answer = tokio::select! {
            Some(answer) = own.recv() => answer,
            probed = timeout_at(end, fleet.next_probed()) => match probed {
                Ok(Ok(Probed { host, target, result })) => {
                    let from = sites.iter().position(|site| site.agent == Some(host));
                    (from.unwrap_or(usize::MAX), target, result)
                }
                // A survey of all hosts includes that one.
                Ok(Err(_)) if thoroughness == Thoroughness::All => continue,
                Ok(Err(error)) => return Err(error),
                Err(_) => break,
            },
        };
        answers.record(answer);
        if thoroughness == Thoroughness::Enough && !is_enough && answers.is_every_pair_reached() {
            is_enough = true;
            end = end.min(Instant::now() + GRACE);
        }
    }
    Ok(SurveyResult {
        found: choose(&hosts, &answers.probes(), rules),
        answers,
    })
}

fn addresses(site: &Site) -> HostAddresses {
    let candidates = site.facts.interfaces.iter().map(|interface| Candidate {
        address: interface.address,
        interface: interface.name.clone(),
        up: interface.up,
    });
    HostAddresses {
        name: site.name.clone(),
        advertised: site.advertised.clone(),
        resolved: site.resolved.clone(),
        candidates: candidates.collect(),
        is_container: site.facts.container != Container::None,
    }
}

type ProbeAnswer = (usize, ProbeTarget, Result<Duration, ProbeFailure>);

/// What was asked and what was answered.
struct ProbeAnswers {
    /// The numbers of the sites.
    numbers: Vec<u32>,
    /// Per host its addresses, best first.
    wanted: Vec<Vec<IpAddr>>,
    results: HashMap<(usize, usize, IpAddr), Result<Duration, ProbeFailure>>,
}

impl ProbeAnswers {
    fn new(sites: &[Site], hosts: &[HostAddresses], rules: &AddressRules) -> Self {
        let of =
            |host: &HostAddresses| targets(host, rules).iter().map(|one| one.address).collect();
        Self {
            numbers: sites.iter().map(|site| site.number).collect(),
            wanted: hosts.iter().map(of).collect(),
            results: HashMap::with_capacity(sites.len() * sites.len()),
        }
    }

    fn targets_of(&self, from: usize, sites: &[Site]) -> Vec<ProbeTarget> {
        let mut all = Vec::new();
        for (to, addresses) in self.wanted.iter().enumerate() {
            if to == from {
                continue;
            }
            let (host, port) = (sites[to].number, sites[to].probe_port);
            // The last is taken first.
            all.extend(addresses.iter().rev().map(|&address| ProbeTarget {
                host,
                address: (address, port).into(),
            }));
        }
        all
    }

    fn record(&mut self, (from, target, result): ProbeAnswer) {
        let mut numbers = self.numbers.iter();
        if let Some(to) = numbers.position(|&number| number == target.host) {
            self.results.insert((from, to, target.address.ip()), result);
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let hosts = self.wanted.len();
        (0..hosts)
            .flat_map(move |from| (0..hosts).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
    }

    fn answer(&self, (from, to): (usize, usize), address: IpAddr) -> Option<bool> {
        let result = self.results.get(&(from, to, address))?;
        Some(result.is_ok())
    }

    /// Whether no better answer can come any more.
    fn is_complete(&self, thoroughness: Thoroughness) -> bool {
        self.pairs().all(|pair| {
            let mut open = self.wanted[pair.1].iter();
            match thoroughness {
                Thoroughness::All => open.all(|&address| self.answer(pair, address).is_some()),
                // Up to the first that works, all have to be known.
                Thoroughness::Enough => open
                    .map(|&address| self.answer(pair, address))
                    .find(|answer| *answer != Some(false))
                    .is_none_or(|answer| answer == Some(true)),
            }
        })
    }

    fn is_every_pair_reached(&self) -> bool {
        self.pairs().all(|pair| {
            let mut all = self.wanted[pair.1].iter();
            all.any(|&address| self.answer(pair, address) == Some(true))
        })
    }

    fn probes(&self) -> Vec<Probe> {
        let probe =
            |(&(from, to, address), result): (&(usize, usize, IpAddr), &Result<_, _>)| Probe {
                from,
                to,
                address,
                result: result
                    .clone()
                    .map_err(|error: ProbeFailure| error.to_string()),
            };
        self.results.iter().map(probe).collect()
    }
}
