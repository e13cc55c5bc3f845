//! From the plan to hosts that are ready: which of them are elsewhere, their agents, whether they
//! are fit for the job, and how their ranks will reach each other. The phases `resolve`, `agents`,
//! `versions` and `reachability` of a start.

use std::net::{IpAddr, SocketAddr};

use hvd_config::name;
use hvd_rendezvous::JobKey;
use hvd_types::Placement;
use tokio::time::{Instant, timeout_at};

use super::{
    agent_port::AgentPort,
    findings::{self, HostAnswer, HostFinding, JobFacts, Severity},
    fleet::{ConnectedAgents, Fleet, Greeting},
    phase_log::{PhaseLog, StartClock},
    start_agent::{AgentStart, StarterStderr},
    survey::{Site, SurveyResult, Thoroughness, survey},
};
use crate::{
    error::{Error, HostTrouble, Result},
    hosts::{
        AddressRules, Reachability, Resolved,
        facts::{self, HostFacts, Question},
        is_local_name,
        probe::ProbePort,
        resolve, this_machine,
    },
    messages,
    process::{Reaper, WorkerHost, container::outside, passed_on, rank_variables},
    protocol::{Assignment, RankAssignment, Secret},
    spec::JobSpec,
};

/// What is needed to get the hosts of a job ready.
pub(crate) struct HostPreparation<'a> {
    pub(crate) spec: &'a JobSpec,
    pub(crate) key: &'a JobKey,
    /// What agents are sent of it.
    pub(crate) secret: Secret,
    /// Where the key-value store listens, on this host; none if no rank will be started.
    pub(crate) store: Option<SocketAddr>,
    pub(crate) reaper: &'a Reaper,
    pub(crate) phase_log: &'a PhaseLog,
}

/// Hosts that are ready.
pub(crate) struct PreparedHosts {
    /// The ranks of this host.
    pub(crate) local: Vec<Placement>,
    /// Variables that the ranks of this host get besides.
    pub(crate) variables: Vec<(String, String)>,
    /// The agents of the other hosts, if there are any.
    pub(crate) fleet: Option<Fleet>,
}

/// One host of the job.
pub(crate) struct JobHost {
    pub(crate) name: String,
    pub(crate) placements: Vec<Placement>,
    pub(crate) resolved: Resolved,
}

impl JobHost {
    /// How many ranks it takes.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.placements.len()).unwrap_or(u32::MAX)
    }
}

/// The number of each host's site: further names of this machine mean the same site.
pub(crate) fn site_numbers(hosts: &[JobHost]) -> Vec<u32> {
    let (mut numbers, mut home) = (0.., None);
    let mut next = || numbers.next().unwrap_or(u32::MAX);
    let number = |host: &JobHost| {
        if host.resolved.is_local {
            *home.get_or_insert_with(&mut next)
        } else {
            next()
        }
    };
    hosts.iter().map(number).collect()
}

impl HostPreparation<'_> {
    /// Gets all hosts ready.
    pub(crate) async fn prepare(&self, clock: &mut StartClock) -> Result<PreparedHosts> {
        let hosts = self.hosts().await?;
        self.phase_log.finish_phase(clock, "resolve")?;
        let is_local = |host: &&JobHost| host.resolved.is_local;
        let local: Vec<Placement> = hosts
            .iter()
            .filter(is_local)
            .flat_map(|host| host.placements.clone())
            .collect();
        if hosts.iter().all(|host| is_local(&host)) {
            return Ok(PreparedHosts {
                local,
                variables: Vec::new(),
                fleet: None,
            });
        }
        // Before the limit of open files is raised, which is not the one ranks get.
        let own_facts = facts::gather(&self.question());
        let deadline = clock.deadline().into();
        let show = |text: &str| self.phase_log.show_progress(&format!("agents: {text}"));
        let called = self.connect_agents(&hosts, &own_facts, deadline, show);
        let ConnectedAgents { mut fleet, absent } = called.await?;
        if !absent.is_empty() {
            let troubles = absent.into_values().collect();
            return Err(Error::Hosts { troubles });
        }
        self.phase_log.finish_phase(clock, "agents")?;
        let greetings = timeout_at(deadline, fleet.greetings()).await;
        let greetings = greetings.map_err(|_| clock.overrun("agents"))??;
        self.check(&hosts, &own_facts, &greetings)?;
        self.phase_log.finish_phase(clock, "versions")?;
        self.phase_log
            .show_progress("reachability: hosts try each other");
        let variables = self
            .find_routes(&hosts, own_facts, greetings, &mut fleet)
            .await?;
        self.phase_log.finish_phase(clock, "reachability")?;
        Ok(PreparedHosts {
            local,
            variables,
            fleet: Some(fleet),
        })
    }

    /// The hosts that have ranks, in the order of these.
    pub(crate) async fn hosts(&self) -> Result<Vec<JobHost>> {
        let mut names: Vec<String> = Vec::new();
        for placement in &self.spec.placements {
            if !names.contains(&placement.hostname) {
                names.push(placement.hostname.clone());
            }
        }
        let this = this_machine();
        if names.iter().any(|name| !is_local_name(name, &this)) {
            self.phase_log.show_progress("resolve: looking names up");
        }
        let resolved = resolve(&names).await?;
        let host = |(name, resolved): (String, Resolved)| JobHost {
            placements: self
                .spec
                .placements
                .iter()
                .filter(|placement| placement.hostname == name)
                .cloned()
                .collect(),
            name,
            resolved,
        };
        Ok(names.into_iter().zip(resolved).map(host).collect())
    }

    pub(crate) fn question(&self) -> Question {
        let environment = self.spec.inherited.iter();
        let environment = environment.filter_map(|(name, value)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        });
        Question {
            directory: self.spec.directory.to_string_lossy().into_owned(),
            command: outside(&self.spec.command, self.spec.container.as_ref()),
            environment: environment.collect(),
        }
    }

    /// Calls the agents of all hosts but this one, in the order of `hosts`.
    pub(crate) async fn connect_agents(
        &self,
        hosts: &[JobHost],
        own: &HostFacts,
        deadline: Instant,
        progress: impl Fn(&str),
    ) -> Result<ConnectedAgents> {
        let port = match &self.spec.remote.agents {
            None => AgentPort::open(self.key)?,
            Some(agents) => {
                self.phase_log
                    .verbose(|| messages::awaiting_calls(agents.port));
                AgentPort::open_at(agents.port, &agents.token.key())?
            }
        };
        let addresses = own.interfaces.iter();
        let addresses: Vec<IpAddr> = addresses
            .filter(|interface| interface.up && !interface.loopback)
            .map(|interface| interface.address)
            .collect();
        let starts = hosts
            .iter()
            .zip(site_numbers(hosts))
            .filter(|(host, _)| !host.resolved.is_local)
            .map(|(host, site)| self.agent_start(host, site, &addresses, port.port()))
            .collect();
        let connected =
            Fleet::connect_all(starts, port, self.store, self.reaper, deadline, progress);
        Ok(connected.await)
    }

    /// The host as `ssh` wants it.
    fn ssh_target(&self, name: &str) -> String {
        let mut hosts = self.spec.hosts.iter();
        let host = hosts.find(|host| host.hostname() == name);
        host.map_or(name, |host| &host.name).to_owned()
    }

    /// What a person types to get to a host; none if this is it, or if agents call by themselves.
    pub(crate) fn ssh_by_hand(&self, host: &JobHost) -> Option<String> {
        if host.resolved.is_local {
            return None;
        }
        self.spec.remote.by_hand(&self.ssh_target(&host.name))
    }

    fn agent_start(
        &self,
        host: &JobHost,
        site: u32,
        addresses: &[IpAddr],
        port: u16,
    ) -> AgentStart {
        let JobSpec {
            command,
            directory,
            container,
            inherited,
            exports,
            remote,
            ..
        } = self.spec;
        let rank = |placement: &Placement| RankAssignment {
            rank: placement.rank.number(),
            variables: rank_variables(placement, exports),
        };
        let passes_environment = remote.starter.passes_environment();
        let environment: Vec<_> = passed_on(inherited, WorkerHost::OtherHost)
            .filter(|(name, _)| !remote.starter.is_misled_by(name))
            .collect();
        let assignment = Assignment {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: site,
            name: host.name.clone(),
            secret: self.secret.clone(),
            driver: addresses.to_vec(),
            driver_port: port,
            command: command.clone(),
            directory: directory.clone(),
            container: container.clone(),
            // An agent that was started beforehand has the environment that its user gave it.
            environment: if passes_environment || remote.agents.is_some() {
                Vec::new()
            } else {
                environment.clone()
            },
            port_range: remote.port_range,
            ranks: host.placements.iter().map(rank).collect(),
        };
        AgentStart {
            assignment,
            target: self.ssh_target(&host.name),
            addresses: host.resolved.addresses.clone(),
            options: remote.clone(),
            environment,
            stderr: StarterStderr::default(),
        }
    }

    /// Compares the hosts; what makes the job impossible ends it here.
    fn check(&self, hosts: &[JobHost], own: &HostFacts, greetings: &[Greeting]) -> Result<()> {
        let mut greetings = greetings.iter();
        let mut answer = |host: &JobHost| {
            let greeting = (!host.resolved.is_local)
                .then(|| greetings.next())
                .flatten();
            (self.ssh_by_hand(host), greeting)
        };
        let answers: Vec<_> = hosts.iter().map(&mut answer).collect();
        let answers: Vec<HostAnswer<'_>> = hosts
            .iter()
            .zip(&answers)
            .map(|(host, (ssh, greeting))| HostAnswer {
                name: &host.name,
                slots: host.slots(),
                facts: greeting.map_or(own, |greeting| &greeting.facts),
                extra: None,
                ssh: ssh.as_deref(),
                timing: greeting.map(|greeting| greeting.timing),
            })
            .collect();
        let (fatal, passable): (Vec<HostFinding>, Vec<HostFinding>) = self
            .compare(own, &answers, None)
            .into_iter()
            .partition(|finding| finding.severity == Severity::Fatal);
        for finding in passable {
            let what = messages::found_on(&finding.host, &finding.what);
            let line = messages::finding(&what, &finding.remedy);
            match finding.severity {
                Severity::Warning => self.phase_log.announce(line),
                _ => self.phase_log.verbose(|| line),
            }
        }
        if fatal.is_empty() {
            return Ok(());
        }
        let trouble = |finding: HostFinding| HostTrouble {
            what: messages::found_on(&finding.host, &finding.what),
            host: finding.host,
            remedy: finding.remedy,
        };
        Err(Error::Hosts {
            troubles: fatal.into_iter().map(trouble).collect(),
        })
    }

    /// What is wrong with the hosts.
    pub(crate) fn compare(
        &self,
        own: &HostFacts,
        answers: &[HostAnswer<'_>],
        wheel: Option<&str>,
    ) -> Vec<HostFinding> {
        let directory = self.spec.directory.to_string_lossy();
        let job = JobFacts {
            ranks: u32::try_from(self.spec.placements.len()).unwrap_or(u32::MAX),
            directory: &directory,
            wheel,
        };
        findings::compare(own, answers, &job)
    }

    /// The port at which this host is probed, if it is one of the job's.
    pub(crate) fn home_port(&self, hosts: &[JobHost]) -> Result<Option<ProbePort>> {
        let mut numbered = hosts.iter().zip(site_numbers(hosts));
        numbered
            .find(|(host, _)| host.resolved.is_local)
            .map(|(_, site)| ProbePort::open(self.spec.remote.port_range, self.key, site))
            .transpose()
    }

    /// What the user said about addresses.
    pub(crate) fn rules(&self) -> AddressRules {
        AddressRules {
            interfaces: self.spec.remote.interfaces.clone(),
            port_range: self.spec.remote.port_range,
        }
    }

    /// What the user said about the addresses of one host.
    pub(crate) fn advertised(&self, name: &str) -> Vec<IpAddr> {
        let advertised = self.spec.remote.advertised.iter();
        advertised
            .filter(|(host, _)| host == name)
            .map(|(_, address)| *address)
            .collect()
    }

    /// Has all hosts probe each other, and sets for the ranks of each what to use: those of this
    /// host by the result, those of others through the fleet.
    async fn find_routes(
        &self,
        hosts: &[JobHost],
        own_facts: HostFacts,
        greetings: Vec<Greeting>,
        fleet: &mut Fleet,
    ) -> Result<Vec<(String, String)>> {
        let home_port = self.home_port(hosts)?;
        let sites = self.sites(hosts, own_facts, greetings, home_port.as_ref());
        let enough = Thoroughness::Enough;
        let SurveyResult { found, .. } =
            survey(&sites, fleet, self.key, &self.rules(), enough).await?;
        if !found.is_complete() {
            return Err(Error::Unreachable {
                report: found.report(),
            });
        }
        self.phase_log
            .verbose(|| messages::reachability(&found.matrix()));
        let mut own_variables = Vec::new();
        for (from, site) in sites.iter().enumerate() {
            let variables = self.variables(from, &sites, hosts, &found);
            match site.agent {
                Some(agent) => fleet.host_mut(agent).variables = variables,
                None => own_variables = variables,
            }
        }
        Ok(own_variables)
    }

    /// The hosts that have to reach each other. Further names of this machine are left out: they
    /// mean the same site.
    fn sites(
        &self,
        hosts: &[JobHost],
        own_facts: HostFacts,
        greetings: Vec<Greeting>,
        home: Option<&ProbePort>,
    ) -> Vec<Site> {
        let mut greetings = greetings.into_iter().enumerate();
        let mut own_facts = Some(own_facts);
        let mut sites = Vec::new();
        for (host, number) in hosts.iter().zip(site_numbers(hosts)) {
            let (facts, probe_port, agent) = if host.resolved.is_local {
                let Some(facts) = own_facts.take() else {
                    continue;
                };
                (facts, home.map_or(0, ProbePort::number), None)
            } else {
                let Some((agent, greeting)) = greetings.next() else {
                    continue;
                };
                (greeting.facts, greeting.probe_port, Some(agent))
            };
            sites.push(Site {
                number,
                name: host.name.clone(),
                facts,
                probe_port,
                resolved: host.resolved.addresses.clone(),
                advertised: self.advertised(&host.name),
                agent,
            });
        }
        sites
    }

    /// The variables of the ranks at `from` about the others.
    fn variables(
        &self,
        from: usize,
        sites: &[Site],
        hosts: &[JobHost],
        found: &Reachability,
    ) -> Vec<(String, String)> {
        let home = sites.iter().position(|site| site.agent.is_none());
        let mut routes = Vec::new();
        for host in hosts {
            let to = match sites.iter().position(|site| site.name == host.name) {
                Some(to) => Some(to),
                None => home,
            };
            if let Some(address) = to.and_then(|to| found.address(from, to)) {
                routes.push(format!("{}={address}", host.name));
            }
        }
        let mut variables = vec![(name::HOST_ADDRESSES.to_owned(), routes.join(","))];
        if let Some((first, last)) = self.spec.remote.port_range {
            variables.push((name::PORT_RANGE.to_owned(), format!("{first}-{last}")));
        }
        variables
    }
}
