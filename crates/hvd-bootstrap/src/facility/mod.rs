//! What passes rank 0's announcement on to the other ranks: the wire-up of the launcher, or a file in
//! a directory that all ranks see.

mod directory;
mod pmi;
mod pmix;

use std::time::Instant;

use hvd_config::{BootstrapChoice, BootstrapConfig, Environment};
use hvd_types::Rank;

pub(crate) use directory::Directory;
use pmi::{InitCommand, Pmi};
pub(crate) use pmix::run_helper;
use pmix::{Pmix, PmixHelper};

use crate::detection::DetectedRank;
use crate::launchers::{SLURM, WireUp};
use crate::{Error, Result};

/// An announcement is shorter.
const LONGEST: u64 = 4096;

/// Passes one text from rank 0 to all ranks.
pub(crate) trait Facility: Send {
    /// What it is called, in messages.
    fn name(&self) -> String;

    /// The number of ranks, if it knows.
    fn size(&mut self) -> Option<u32> {
        None
    }

    /// Gives rank 0's text to every rank; the others pass none. Ends by `end`, with what happened
    /// and what to do.
    fn share(&mut self, text: Option<&str>, end: Instant) -> std::result::Result<String, String>;

    /// All ranks have the text.
    fn shared(&mut self) {}

    /// This process is about to exit.
    fn finish(&mut self) {}
}

/// What this rank's launcher offers, or what the user has chosen.
pub(crate) fn choose(
    detected: &DetectedRank,
    config: &BootstrapConfig,
    environment: &Environment,
    helper: &[String],
) -> Result<Box<dyn Facility>> {
    let is_set = |variable| environment.text(variable).is_some();
    let has_pmix =
        is_set("PMIX_NAMESPACE") && matches!(detected.launcher.wire_up, WireUp::Pmix | WireUp::Any);
    let has_pmi = (is_set("PMI_FD") || is_set("PMI_PORT"))
        && matches!(detected.launcher.wire_up, WireUp::Pmi | WireUp::Any);
    match config.choice {
        BootstrapChoice::Pmix => open_pmix(detected, environment, helper),
        BootstrapChoice::Pmi => open_pmi(detected, environment),
        BootstrapChoice::Auto if config.directory.is_none() && has_pmix => {
            open_pmix(detected, environment, helper).or_else(|error| {
                // A container without the library may still see the user's directory.
                tracing::info!("{error}; using a file instead");
                directory(detected, config).map_err(|_| error)
            })
        }
        BootstrapChoice::Auto if config.directory.is_none() && has_pmi => {
            open_pmi(detected, environment)
        }
        BootstrapChoice::File | BootstrapChoice::Auto => directory(detected, config),
    }
}

fn open_pmix(
    detected: &DetectedRank,
    environment: &Environment,
    helper: &[String],
) -> Result<Box<dyn Facility>> {
    // Only PMIx itself knows the size of some jobs, and it is needed before the exchange.
    if !helper.is_empty() && detected.size.is_some() && pmix::needs_helper(environment) {
        return Ok(Box::new(PmixHelper::new(helper.to_vec())));
    }
    let pmix =
        Pmix::open(environment).map_err(|reason| failure(detected.rank(), "PMIx", reason))?;
    Ok(Box::new(pmix))
}

fn open_pmi(detected: &DetectedRank, environment: &Environment) -> Result<Box<dyn Facility>> {
    let init = if *detected.launcher == SLURM {
        InitCommand::Send
    } else {
        InitCommand::Skip
    };
    let pmi =
        Pmi::open(environment, init).map_err(|reason| failure(detected.rank(), "PMI", reason))?;
    Ok(Box::new(pmi))
}

fn directory(detected: &DetectedRank, config: &BootstrapConfig) -> Result<Box<dyn Facility>> {
    let found = Directory::of(detected.job.as_deref(), config, detected.rank());
    let nowhere = || Error::NoFacility {
        rank: detected.rank(),
        size: detected.size.unwrap_or_default(),
        command: detected.launcher.command,
    };
    Ok(Box::new(found.ok_or_else(nowhere)?))
}

pub(crate) fn failure(rank: Rank, facility: &str, reason: String) -> Error {
    Error::Facility {
        rank,
        facility: facility.to_owned(),
        reason,
    }
}
