//! From the plan to hosts that are ready: which of them are elsewhere, their agents, and how their
//! ranks will reach each other. The phases `resolve`, `agents` and `reachability` of a start.

use std::net::{IpAddr, SocketAddr};

use hvd_rendezvous::JobKey;
use hvd_types::Placement;

use super::{
    Fleet,
    back::Door,
    message::{Assignment, RankAssignment},
    resolve::{Resolved, own_addresses, resolve},
    summon::Summons,
};
use crate::{
    JobSpec, Result,
    exec::{Narrator, Reaper, StartClock},
    plan::{Reach, passed_on, rank_variables},
};

/// What is needed to get the hosts of a job ready.
pub(crate) struct Expedition<'a> {
    pub(crate) spec: &'a JobSpec,
    pub(crate) key: &'a JobKey,
    /// Where the key-value store listens, on this host.
    pub(crate) store: SocketAddr,
    pub(crate) reaper: &'a Reaper,
    pub(crate) narrator: &'a Narrator,
}

/// Hosts that are ready.
pub(crate) struct Mustered {
    /// The ranks of this host.
    pub(crate) local: Vec<Placement>,
    /// What the ranks of this host are told besides.
    pub(crate) variables: Vec<(String, String)>,
    /// The agents of the other hosts, if there are any.
    pub(crate) fleet: Option<Fleet>,
}

/// One host of the job.
struct Member {
    name: String,
    placements: Vec<Placement>,
    resolved: Resolved,
}

impl Expedition<'_> {
    /// Gets all hosts ready.
    pub(crate) async fn set_out(&self, clock: &mut StartClock) -> Result<Mustered> {
        let members = self.members().await?;
        self.narrator.phase(clock, "resolve")?;
        let (local, remote): (Vec<Member>, Vec<Member>) = members
            .into_iter()
            .partition(|member| member.resolved.is_local);
        let local: Vec<Placement> = local
            .into_iter()
            .flat_map(|member| member.placements)
            .collect();
        if remote.is_empty() {
            return Ok(Mustered {
                local,
                variables: Vec::new(),
                fleet: None,
            });
        }
        let door = Door::open(self.key)?;
        let addresses: Vec<IpAddr> = own_addresses()?
            .into_iter()
            .filter(|address| !address.is_loopback())
            .collect();
        let summons = remote
            .iter()
            .zip(0..)
            .map(|(member, host)| self.summons(member, host, &addresses, door.port()))
            .collect();
        let deadline = clock.deadline().into();
        let fleet = Fleet::muster(summons, door, self.store, self.reaper, deadline, |_| ()).await?;
        self.narrator.phase(clock, "agents")?;
        Ok(Mustered {
            local,
            variables: Vec::new(),
            fleet: Some(fleet),
        })
    }

    /// The hosts that have ranks, in the order of these.
    async fn members(&self) -> Result<Vec<Member>> {
        let mut names: Vec<String> = Vec::new();
        for placement in &self.spec.placements {
            if !names.contains(&placement.hostname) {
                names.push(placement.hostname.clone());
            }
        }
        let resolved = resolve(&names).await?;
        let member = |(name, resolved): (String, Resolved)| Member {
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
        Ok(names.into_iter().zip(resolved).map(member).collect())
    }

    /// The host as `ssh` wants it.
    fn ssh_target(&self, name: &str) -> String {
        let mut hosts = self.spec.hosts.iter();
        let host = hosts.find(|host| host.hostname() == name);
        host.map_or(name, |host| &host.name).to_owned()
    }

    fn summons(&self, member: &Member, host: u32, addresses: &[IpAddr], port: u16) -> Summons {
        let JobSpec {
            command,
            directory,
            inherited,
            exports,
            remote,
            ..
        } = self.spec;
        let rank = |placement: &Placement| RankAssignment {
            rank: placement.rank.number(),
            variables: rank_variables(placement, exports),
        };
        let assignment = Assignment {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host,
            name: member.name.clone(),
            key: self.key.to_hex(),
            driver: addresses.to_vec(),
            driver_port: port,
            command: command.clone(),
            directory: directory.clone(),
            environment: passed_on(inherited, Reach::OtherHost).collect(),
            ranks: member.placements.iter().map(rank).collect(),
        };
        Summons {
            assignment,
            target: self.ssh_target(&member.name),
            options: remote.ssh.clone(),
            interpreter: remote.interpreter.clone(),
        }
    }
}
