//! From the variables of a launcher to the variables of `horovodrun`: the steps of finding a job, in
//! their order.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Instant;

use hvd_config::{BootstrapConfig, Environment, KeySource, name};
use hvd_launch::debug::{DebugThread, JobRank};
use hvd_rendezvous::{Client, JobKey, Server};
use hvd_types::{Placement, Rank};

use crate::announcement::Announcement;
use crate::detection::{DetectedRank, decide};
use crate::facility::{self, Facility};
use crate::launchers::COMMUNICATOR;
use crate::placement_exchange::{AgreedPlacement, PlacementExchange, this_host};
use crate::store::{self, JobStore, Reach};
use crate::{Error, Result, hidden, subset};

/// A job that this process belongs to, for as long as the process lives: it may join and leave again
/// and again. Rank 0 serves the store meanwhile, and answers `horovodrun debug`.
pub struct FoundJob {
    variables: Vec<(&'static str, String)>,
    facility: Option<Box<dyn Facility>>,
    debug: Option<DebugThread>,
    _server: Option<Server>,
}

impl fmt::Debug for FoundJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is among the variables.
        f.debug_struct("FoundJob").finish_non_exhaustive()
    }
}

impl FoundJob {
    /// `server` is the store, in rank 0.
    fn new(
        met: MetRanks,
        facility: Option<Box<dyn Facility>>,
        server: Option<Server>,
        config: &BootstrapConfig,
    ) -> Self {
        let MetRanks { variables, ranks } = met;
        let debug = server.as_ref().map(|server| {
            let directory = config.runtime_directory.as_ref();
            let directory = directory.map(|path| ("XDG_RUNTIME_DIR".into(), path.into()));
            let environment: Vec<_> = directory.into_iter().collect();
            DebugThread::start(&environment, ranks, server.store())
        });
        Self {
            variables,
            facility,
            debug,
            _server: server,
        }
    }

    /// What `horovodrun` would have set. Not for the environment of a process: the key is among it.
    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// Takes leave of the launcher; this process is about to exit.
    pub fn finish(&mut self) {
        self.debug = None;
        if let Some(facility) = &mut self.facility {
            facility.finish();
        }
    }
}

/// The job that another launcher has started this process for; none if `horovodrun` has, or if it is
/// a job of its own. Waits for the other ranks, at most for `HOROVOD_GLOO_TIMEOUT_SECONDS`.
///
/// `helper` is a command that calls [`run_helper`] in a process of its own; empty if there is none.
pub fn find(environment: &Environment, helper: &[String]) -> Result<Option<FoundJob>> {
    let Some(detected) = decide(environment)? else {
        hidden::refuse(environment)?;
        return Ok(None);
    };
    let config = BootstrapConfig::read(environment)?;
    if detected.size == Some(1) {
        return Ok(Some(alone()));
    }
    let end = Instant::now() + config.timeout;
    if let Some(place) = given_place(&detected, &config, environment)? {
        return by_address(&detected, &config, &place, end).map(Some);
    }
    let facility = facility::choose(&detected, &config, environment, helper)?;
    by_facility(&detected, &config, facility, end)
}

/// What the process of `find`'s helper does: it passes on what it reads, and prints what it receives.
pub fn run_helper(environment: &Environment) -> std::result::Result<(), String> {
    let config = BootstrapConfig::read(environment).map_err(|error| error.to_string())?;
    facility::run_helper(environment, Instant::now() + config.timeout)
}

/// A rank that was told to be the only one.
fn alone() -> FoundJob {
    FoundJob {
        variables: placement_variables(&Placement::alone()),
        facility: None,
        debug: None,
        _server: None,
    }
}

/// Through what the launcher offers.
fn by_facility(
    detected: &DetectedRank,
    config: &BootstrapConfig,
    mut facility: Box<dyn Facility>,
    end: Instant,
) -> Result<Option<FoundJob>> {
    let Some(size) = detected.size.or_else(|| facility.size()) else {
        return Err(Error::NoSize {
            command: detected.launcher.command,
            variable: detected.launcher.rank,
        });
    };
    if size == 1 {
        facility.finish();
        return Ok(Some(alone()));
    }
    let rank = detected.rank();
    let reach = if detected.is_single_host() {
        Reach::ThisHost
    } else {
        Reach::AllHosts
    };
    let store = is_first(rank)
        .then(|| store::serve(config, reach))
        .transpose()?;
    let own = store.as_ref().map(|store| store.announcement.encode());
    let shared = facility.share(own.as_deref(), end);
    let text = shared.map_err(|reason| facility::failure(rank, &facility.name(), reason))?;
    let announcement = Announcement::decode(&text)?;
    let met = meet(detected, size, config, &announcement, end)?;
    facility.shared();
    tracing::debug!(
        "rank {rank} of {size} found the others by {}",
        facility.name()
    );
    let server = store.map(|store| store.server);
    let job = FoundJob::new(met, Some(facility), server, config);
    Ok(Some(job))
}

/// Where rank 0 listens, if that is given together with a key.
struct GivenPlace {
    address: String,
    ports: RangeInclusive<u16>,
    key: JobKey,
}

fn given_place(
    detected: &DetectedRank,
    config: &BootstrapConfig,
    environment: &Environment,
) -> Result<Option<GivenPlace>> {
    let master = environment
        .text("MASTER_ADDR")
        .filter(|_| detected.launcher.rank == "RANK" && config.key.is_some());
    let (address, port, present) = match (&config.address, master) {
        (Some(address), _) => (address.clone(), config.port, name::BOOTSTRAP_ADDR),
        // The port itself is that of PyTorch's own store.
        (None, Some(master)) => {
            let port: Option<u16> = environment.optional("MASTER_PORT")?;
            let next = port.and_then(|port| port.checked_add(1));
            (master.to_owned(), config.port.or(next), "MASTER_ADDR")
        }
        (None, None) => return Ok(None),
    };
    let missing = |missing, meaning| Error::ByHand {
        present,
        missing,
        meaning,
    };
    let port = port.ok_or_else(|| missing(name::BOOTSTRAP_PORT, "it is where rank 0 listens"))?;
    let key = match config.key.as_ref() {
        Some(KeySource::File(path)) => JobKey::from_file(path)?,
        Some(KeySource::Text(text)) => JobKey::from_hex(text)?,
        None => {
            return Err(missing(
                name::SECRET_KEY_FILE,
                "make a key with `(umask 077; openssl rand -hex 32 > KEY_FILE)` and give that file to \
                 all ranks",
            ));
        }
    };
    Ok(Some(GivenPlace {
        address,
        ports: port..=port,
        key,
    }))
}

/// Rank 0 listens where all ranks were told.
fn by_address(
    detected: &DetectedRank,
    config: &BootstrapConfig,
    place: &GivenPlace,
    end: Instant,
) -> Result<FoundJob> {
    let size = detected.size.unwrap_or_default();
    let server = is_first(detected.rank())
        .then(|| store::serve_at(&place.key, place.ports.clone(), Reach::AllHosts))
        .transpose()?;
    let (address, port) = (&place.address, *place.ports.start());
    let mut client = store::connect_to(
        address,
        port,
        &place.key,
        (detected.rank(), &this_host()),
        end,
    )?;
    let met = PlacementExchange {
        detected,
        size,
        config,
        key: &place.key,
        end,
    }
    .meet(&mut client)?;
    let met = MetRanks {
        variables: variables(&met, address, port, &place.key),
        ranks: met.ranks,
    };
    Ok(FoundJob::new(met, None, server, config))
}

/// The job of some of the ranks that a launcher has started, in the order of `ranks`; the others need
/// not take part. This process must be among them.
pub fn find_subset(environment: &Environment, ranks: &[u32]) -> Result<FoundJob> {
    let config = BootstrapConfig::read(environment)?;
    let whole = match decide(environment)? {
        Some(detected) => detected,
        None => subset::detected_by_horovodrun(environment)?,
    };
    let own = subset::position(&whole, ranks)?;
    let size = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    if size == 1 {
        return Ok(alone());
    }
    let detected = DetectedRank {
        rank: own.number(),
        size: Some(size),
        local_size: None,
        ..whole.clone()
    };
    let end = Instant::now() + config.timeout;
    let mut facility = subset::facility(&whole, ranks, own, &config, environment)?;
    let reach = if whole.is_single_host() {
        Reach::ThisHost
    } else {
        Reach::AllHosts
    };
    let store = is_first(own)
        .then(|| store::serve(&config, reach))
        .transpose()?;
    let announced = store.as_ref().map(|store| store.announcement.encode());
    let shared = facility.share(announced.as_deref(), end);
    let text = shared.map_err(|reason| facility::failure(own, &facility.name(), reason))?;
    let met = meet(&detected, size, &config, &Announcement::decode(&text)?, end)?;
    facility.shared();
    let server = store.map(|store| store.server);
    Ok(FoundJob::new(met, None, server, &config))
}

/// Starts the store of a job whose ranks pass the announcement on themselves, and returns both.
pub fn announce(environment: &Environment) -> Result<(Announced, String)> {
    let config = BootstrapConfig::read(environment)?;
    let store = store::serve(&config, Reach::AllHosts)?;
    let text = store.announcement.encode();
    Ok((Announced(store), text))
}

/// The store of a job that was announced.
#[derive(Debug)]
pub struct Announced(JobStore);

/// Joins an announced job as one of `size` ranks; rank 0 is the one that announced it.
pub fn join(
    environment: &Environment,
    rank: Rank,
    size: u32,
    announced: Option<Announced>,
    text: &str,
) -> Result<FoundJob> {
    if size == 1 {
        return Ok(alone());
    }
    let config = BootstrapConfig::read(environment)?;
    let detected = DetectedRank {
        launcher: &COMMUNICATOR,
        rank: rank.number(),
        size: Some(size),
        local_size: None,
        node: None,
        job: None,
    };
    let end = Instant::now() + config.timeout;
    let announcement = Announcement::decode(text)?;
    let met = meet(&detected, size, &config, &announcement, end)?;
    let server = announced.map(|announced| announced.0.server);
    Ok(FoundJob::new(met, None, server, &config))
}

fn is_first(rank: Rank) -> bool {
    rank == Rank::COORDINATOR
}

/// What came of the meeting.
struct MetRanks {
    variables: Vec<(&'static str, String)>,
    /// The processes of all ranks.
    ranks: Vec<JobRank>,
}

/// Meets the other ranks in the store that was announced.
fn meet(
    detected: &DetectedRank,
    size: u32,
    config: &BootstrapConfig,
    announcement: &Announcement,
    end: Instant,
) -> Result<MetRanks> {
    let who = (detected.rank(), &*this_host());
    let (mut client, address): (Client, _) = store::connect(announcement, who, end)?;
    let key = &announcement.key;
    let met = PlacementExchange {
        detected,
        size,
        config,
        key,
        end,
    }
    .meet(&mut client)?;
    Ok(MetRanks {
        variables: variables(&met, &address.to_string(), announcement.port, key),
        ranks: met.ranks,
    })
}

fn variables(
    met: &AgreedPlacement,
    address: &str,
    port: u16,
    key: &JobKey,
) -> Vec<(&'static str, String)> {
    let mut variables = placement_variables(&met.placement);
    variables.extend([
        (name::RENDEZVOUS_ADDR, address.to_owned()),
        (name::RENDEZVOUS_PORT, port.to_string()),
        (name::SECRET_KEY, key.to_hex()),
        // Takes precedence, so one that was given for the meeting must not.
        (name::SECRET_KEY_FILE, String::new()),
    ]);
    if let Some(routes) = &met.routes {
        variables.push((name::HOST_ADDRESSES, routes.clone()));
    }
    variables
}

fn placement_variables(placement: &Placement) -> Vec<(&'static str, String)> {
    let numbers = [
        (name::RANK, placement.rank.number()),
        (name::SIZE, placement.size),
        (name::LOCAL_RANK, placement.local_rank),
        (name::LOCAL_SIZE, placement.local_size),
        (name::CROSS_RANK, placement.cross_rank),
        (name::CROSS_SIZE, placement.cross_size),
    ];
    let mut variables: Vec<_> = numbers
        .map(|(name, number)| (name, number.to_string()))
        .into();
    variables.push((name::HOSTNAME, placement.hostname.clone()));
    variables
}

#[cfg(test)]
mod tests;
