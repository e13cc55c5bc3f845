//! `horovodrun doctor`: connects to all hosts as a job would, asks each of them more than a job has
//! time for, measures the ways between them, and fills in the report. Starts no rank, and a host
//! that cannot be reached does not keep it from looking at the others.

use std::collections::BTreeMap;

use tokio::{
    sync::oneshot,
    time::{Duration, Instant, timeout, timeout_at},
};

use super::report::{DoctorReport, HostReport, PairReport};
use crate::{
    driver::{
        ConnectedAgents, Fleet, Greeting, HostAnswer, HostFinding, HostPreparation, JobHost, Site,
        StartClock, SurveyResult, Thoroughness, site_numbers, survey,
    },
    error::{Error, HostTrouble, Result},
    hosts::{
        HostRoute, RouteOutcome,
        facts::{self, Extra, HostFacts},
        measure::{self, LOADED, LOOKED},
        probe::{ProbePort, ProbeTarget},
        ssh::own_files,
    },
    messages,
    process::{ReapedBy, spawn_detached},
};

/// How long this host may take to say what it is.
const FACTS_TIMEOUT: Duration = Duration::from_secs(10);

/// How long agents may take to leave.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(3);

/// With at most so many pairs, as four hosts have, the way of each is measured; of more, only the
/// ways from each host to the next of the list.
const MEASURED_PAIRS: usize = 12;

/// After this time no further way is measured.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(60);

/// One check of all hosts of a list.
pub(crate) struct Doctor<'a> {
    pub(crate) preparation: HostPreparation<'a>,
}

/// One host of the list.
struct HostCheck {
    host: JobHost,
    /// What a person types to get there, if by ssh.
    ssh: Option<String>,
    number: u32,
    /// Its number in the fleet, if its agent has come.
    agent: Option<usize>,
    greeting: Option<Greeting>,
    extra: Option<Extra>,
    trouble: Option<HostTrouble>,
}

impl HostCheck {
    /// What it has said of itself, or this host of itself if that is meant.
    fn facts<'a>(&'a self, own: &'a HostFacts) -> Option<&'a HostFacts> {
        if self.host.resolved.is_local {
            return Some(own);
        }
        self.greeting.as_ref().map(|greeting| &greeting.facts)
    }

    fn answer<'a>(&'a self, own: &'a HostFacts) -> Option<HostAnswer<'a>> {
        Some(HostAnswer {
            name: &self.host.name,
            slots: self.host.slots(),
            facts: self.facts(own)?,
            extra: self.extra.as_ref(),
            ssh: self.ssh.as_deref(),
            timing: self.greeting.as_ref().map(|greeting| greeting.timing),
        })
    }

    fn report(&self, own: &HostFacts) -> HostReport {
        let trouble = self.trouble.as_ref();
        let answer = self.answer(own);
        let greeting = self.greeting.as_ref();
        HostReport {
            name: self.host.name.clone(),
            slots: self.host.slots(),
            unreachable: trouble.map(|trouble| format!("{}\n{}", trouble.what, trouble.remedy)),
            ssh_seconds: greeting.map(|greeting| greeting.latency.as_secs_f64()),
            clock_offset_seconds: answer.and_then(|answer| answer.clock_offset()),
            facts: self.facts(own).cloned(),
            extra: self.extra.clone(),
        }
    }
}

impl Doctor<'_> {
    /// Everything that can be found out about the hosts.
    pub(crate) async fn run(&self, clock: &StartClock) -> Result<DoctorReport> {
        let hosts = self.preparation.hosts().await?;
        let own = self.own_facts().await?;
        let home = self.preparation.home_port(&hosts)?;
        let deadline = clock.deadline().into();
        let (mut checks, mut fleet) = self.connect_agents(hosts, &own, deadline).await?;
        self.look(&mut checks, &mut fleet).await;
        self.progress("trying all addresses between the hosts");
        let sites = self.sites(&checks, &own, home.as_ref());
        let rules = self.preparation.rules();
        let key = self.preparation.key;
        let surveyed = survey(&sites, &mut fleet, key, &rules, Thoroughness::All).await?;
        if sites.len() > 1 {
            let matrix = || messages::reachability(&surveyed.found.matrix());
            self.preparation.phase_log.verbose(matrix);
        }
        let rates = self.measure(&sites, &surveyed, &mut fleet).await;
        self.progress("saying goodbye");
        fleet.dismiss(Instant::now() + GOODBYE_TIMEOUT).await;
        for check in &mut checks {
            record_loss(check, &mut fleet);
        }
        Ok(DoctorReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hosts: checks.iter().map(|check| check.report(&own)).collect(),
            pairs: pairs(&sites, &surveyed, &rates),
            causes: surveyed.found.causes(),
            findings: self.findings(&checks, &own).await,
        })
    }

    fn progress(&self, text: &str) {
        self.preparation.phase_log.show_progress(text);
    }

    /// On a thread of its own: a file system that is gone blocks its caller.
    async fn own_facts(&self) -> Result<HostFacts> {
        let question = self.preparation.question();
        let (sender, facts) = oneshot::channel();
        spawn_detached("hvd-facts", move || {
            let _ = sender.send(facts::gather(&question));
        });
        let facts = timeout(FACTS_TIMEOUT, facts)
            .await
            .ok()
            .and_then(Result::ok);
        facts.ok_or_else(|| {
            let late = std::io::ErrorKind::TimedOut;
            Error::system("look at the working directory")(late.into())
        })
    }

    /// Starts all agents and receives their greetings.
    async fn connect_agents(
        &self,
        hosts: Vec<JobHost>,
        own: &HostFacts,
        deadline: Instant,
    ) -> Result<(Vec<HostCheck>, Fleet)> {
        let progress = |text: &str| self.progress(text);
        let preparation = &self.preparation;
        let called = preparation.connect_agents(&hosts, own, deadline, progress);
        let ConnectedAgents {
            mut fleet,
            mut absent,
        } = called.await?;
        self.progress("waiting for what the hosts say of themselves");
        let mut greetings = fleet.greetings_until(deadline).await;
        let numbers = site_numbers(&hosts);
        let (mut called, mut arrived) = (0.., 0..);
        let check = |(host, number): (JobHost, u32)| {
            let is_elsewhere = !host.resolved.is_local;
            let called = is_elsewhere.then(|| called.next()).flatten();
            let trouble = called.and_then(|place| absent.remove(&place));
            let has_come = is_elsewhere && trouble.is_none();
            let agent = has_come.then(|| arrived.next()).flatten();
            HostCheck {
                greeting: agent.and_then(|agent| greetings.remove(&agent)),
                extra: None,
                ssh: preparation.ssh_by_hand(&host),
                host,
                number,
                agent,
                trouble,
            }
        };
        let checks = hosts.into_iter().zip(numbers).map(check).collect();
        Ok((checks, fleet))
    }

    /// Has the programs of all hosts asked at once.
    async fn look(&self, checks: &mut [HostCheck], fleet: &mut Fleet) {
        self.progress("asking for Python, frameworks, GPUs and MPI");
        let deadline = Instant::now() + LOOKED;
        let (sender, own) = oneshot::channel();
        if checks.iter().any(|one| one.host.resolved.is_local) {
            let reaped_by = ReapedBy::Reaper(self.preparation.reaper.clone());
            measure::look(self.preparation.question(), reaped_by, move |extra| {
                let _ = sender.send(extra);
            });
        } else {
            drop(sender);
        }
        let greeted = checks.iter().filter(|one| one.greeting.is_some());
        let agents: Vec<usize> = greeted.filter_map(|one| one.agent).collect();
        let mut extras = fleet.look(&agents, deadline).await;
        let own = timeout_at(deadline, own).await.ok().and_then(Result::ok);
        for check in checks {
            check.extra = if check.host.resolved.is_local {
                own.clone()
            } else {
                check.agent.and_then(|agent| extras.remove(&agent))
            };
        }
    }

    /// The hosts that were reached; this one once, whatever names it has.
    fn sites(&self, checks: &[HostCheck], own: &HostFacts, home: Option<&ProbePort>) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        for check in checks {
            let is_known = sites.iter().any(|site| site.number == check.number);
            let Some(facts) = check.facts(own).filter(|_| !is_known) else {
                continue;
            };
            let greeting = check.greeting.as_ref();
            let home_port = home.map_or(0, ProbePort::number);
            sites.push(Site {
                number: check.number,
                name: check.host.name.clone(),
                facts: facts.clone(),
                probe_port: greeting.map_or(home_port, |greeting| greeting.probe_port),
                resolved: check.host.resolved.addresses.clone(),
                advertised: self.preparation.advertised(&check.host.name),
                agent: check.agent,
            });
        }
        sites
    }

    /// Bytes per second of the ways that are measured, one after the other, so that they do not
    /// share what is in between.
    async fn measure(
        &self,
        sites: &[Site],
        surveyed: &SurveyResult,
        fleet: &mut Fleet,
    ) -> BTreeMap<(usize, usize), f64> {
        let end = Instant::now() + MEASURE_TIMEOUT;
        let mut rates = BTreeMap::new();
        for &(from, to) in &measured_pairs(surveyed.found.routes(), sites.len()) {
            let Some(address) = surveyed.found.address(from, to) else {
                continue;
            };
            if Instant::now() > end {
                break;
            }
            let (here, there) = (&sites[from], &sites[to]);
            let names = format!("{} to {}", here.name, there.name);
            self.progress(&format!("measuring the way from {names}"));
            let target = ProbeTarget {
                host: there.number,
                address: (address, there.probe_port).into(),
            };
            let deadline = Instant::now() + LOADED;
            let rate = match here.agent {
                Some(agent) => fleet.load(agent, target, deadline).await,
                None => self.load(target, deadline).await,
            };
            match rate {
                Some(Ok(rate)) => drop(rates.insert((from, to), rate)),
                failed => tracing::debug!(%names, ?failed, "a way could not be measured"),
            }
        }
        rates
    }

    async fn load(
        &self,
        target: ProbeTarget,
        deadline: Instant,
    ) -> Option<Result<f64, crate::hosts::probe::ProbeFailure>> {
        let (sender, rate) = oneshot::channel();
        measure::load(target, self.preparation.key, move |rate| {
            let _ = sender.send(rate);
        });
        timeout_at(deadline, rate).await.ok()?.ok()
    }

    async fn findings(&self, checks: &[HostCheck], own: &HostFacts) -> Vec<HostFinding> {
        let answers = checks.iter().filter_map(|check| check.answer(own));
        let answers: Vec<HostAnswer<'_>> = answers.collect();
        let HostPreparation { spec, reaper, .. } = &self.preparation;
        let reaped_by = ReapedBy::Reaper((*reaper).clone());
        let wheel = own_files::wheel(&spec.remote.interpreter, reaped_by).await;
        self.preparation.compare(own, &answers, wheel.as_deref())
    }
}

/// The pairs whose way is measured.
fn measured_pairs(routes: &[HostRoute], hosts: usize) -> Vec<(usize, usize)> {
    let all = routes.iter().map(|route| (route.from, route.to));
    if routes.len() <= MEASURED_PAIRS {
        return all.collect();
    }
    all.filter(|(from, to)| (from + 1) % hosts == *to).collect()
}

fn pairs(
    sites: &[Site],
    surveyed: &SurveyResult,
    rates: &BTreeMap<(usize, usize), f64>,
) -> Vec<PairReport> {
    let pair = |route: &HostRoute| {
        let (from, to) = (route.from, route.to);
        let (address, round_trip, failure) = match &route.outcome {
            RouteOutcome::Reached {
                address,
                round_trip,
            } => (Some(*address), Some(*round_trip), None),
            RouteOutcome::Failed(_) => {
                let (address, failure) = surveyed.failure(from, to);
                (address, None, Some(failure))
            }
        };
        PairReport {
            from: sites[from].name.clone(),
            to: sites[to].name.clone(),
            address,
            round_trip_seconds: round_trip.map(|time| time.as_secs_f64()),
            bytes_per_second: rates.get(&(from, to)).copied(),
            failure,
        }
    };
    surveyed.found.routes().iter().map(pair).collect()
}

/// A host whose agent has come, but not stayed.
fn record_loss(check: &mut HostCheck, fleet: &mut Fleet) {
    let Some(agent) = check.agent else {
        return;
    };
    let host = fleet.host_mut(agent);
    let (what, remedy) = match (&host.lost, &check.greeting) {
        (Some(why), _) => (
            format!("its agent was lost: {why}"),
            "look at what happened there, and try again",
        ),
        (None, None) => (
            "its agent came, but did not tell about the host in time".to_owned(),
            "is a network file system gone there? else allow more with --start-timeout",
        ),
        (None, Some(_)) => return,
    };
    check.trouble = Some(HostTrouble {
        host: host.name.clone(),
        what,
        remedy: remedy.to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(hosts: usize) -> Vec<HostRoute> {
        let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        let route = |(from, to)| HostRoute {
            from,
            to,
            outcome: RouteOutcome::Failed(Vec::new()),
        };
        pairs.filter(|(from, to)| from != to).map(route).collect()
    }

    #[test]
    fn of_many_pairs_only_a_ring_is_measured() {
        assert!(measured_pairs(&routes(1), 1).is_empty());
        assert_eq!(measured_pairs(&routes(2), 2), [(0, 1), (1, 0)]);
        assert_eq!(measured_pairs(&routes(4), 4).len(), 12);
        let ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)];
        assert_eq!(measured_pairs(&routes(5), 5), ring);
    }
}
