//! Which rank this process is, by the variables of launchers: a pure decision, which refuses rather
//! than guesses.
//!
//! - `DETECT-1` the innermost launcher wins: a job of `mpirun` inside of a batch job sees the
//!   variables of both.
//! - `DETECT-2` variables that contradict each other, or are there by half, are an error that names
//!   them.
//! - `DETECT-3` a process that no launcher started as one of several is a job of its own.

use hvd_config::{Environment, name};
use hvd_types::Rank;

use crate::launchers::{BY_HAND, HYDRA, LAUNCHERS, Launcher, OPEN_MPI, PMIX, PYTORCH, SLURM};
use crate::{Error, Result};

/// What one launcher says of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetectedRank {
    pub(crate) launcher: &'static Launcher,
    pub(crate) rank: u32,
    /// None if only PMIx knows it.
    pub(crate) size: Option<u32>,
    /// Processes on this host, if the launcher says so.
    pub(crate) local_size: Option<u32>,
    /// This host as the launcher calls it.
    pub(crate) node: Option<String>,
    /// A name that no other job of this user has.
    pub(crate) job: Option<String>,
}

impl DetectedRank {
    pub(crate) fn rank(&self) -> Rank {
        Rank::new(self.rank)
    }

    /// Whether the launcher says that all ranks are on this host.
    pub(crate) fn is_single_host(&self) -> bool {
        self.size.is_some() && self.size == self.local_size
    }

    /// The variables that were seen, for messages.
    pub(crate) fn seen(&self) -> String {
        let rank = format!("{}={}", self.launcher.rank, self.rank);
        match (self.launcher.size, self.size) {
            (Some(variable), Some(size)) => format!("{rank} and {variable}={size}"),
            _ => rank,
        }
    }

    fn contradicts(&self, other: &Self) -> bool {
        let sizes = self.size.zip(other.size);
        self.rank != other.rank || sizes.is_some_and(|(one, another)| one != another)
    }
}

/// What there is of a launcher's variables.
enum Reading {
    Absent,
    Whole(DetectedRank),
    /// Not enough, or not numbers; an error unless another launcher says all.
    Partial(Error),
}

/// What the innermost launcher says; none if this process was started alone or by `horovodrun`.
pub(crate) fn decide(environment: &Environment) -> Result<Option<DetectedRank>> {
    if is_ours(environment) || environment.flag(name::IGNORE_LAUNCHER)? {
        return Ok(None);
    }
    if let Some(detected) = by_hand(environment)? {
        return checked(detected, environment).map(Some);
    }
    let (mut whole, mut partial) = (Vec::new(), None);
    for launcher in &LAUNCHERS {
        match read(launcher, environment) {
            Reading::Whole(detected) => whole.push(detected),
            Reading::Partial(error) => partial = partial.or(Some(error)),
            Reading::Absent => {}
        }
    }
    drop_variables_of_slurm(&mut whole, environment);
    let Some(chosen) = whole.first() else {
        return partial.map_or(Ok(None), Err);
    };
    if let Some(other) = whole[1..]
        .iter()
        .find(|other| is_contradiction(chosen, other))
    {
        return Err(Error::Contradiction {
            first_command: chosen.launcher.command,
            first: chosen.seen(),
            second_command: other.launcher.command,
            second: other.seen(),
        });
    }
    checked(chosen.clone(), environment).map(Some)
}

/// Whether `horovodrun` has told this process all it needs.
fn is_ours(environment: &Environment) -> bool {
    let is_set = |variable| environment.text(variable).is_some();
    let is_placed = is_set(name::RANK) && is_set(name::SIZE) && is_set(name::LOCAL_RANK);
    is_placed || (is_set(name::RANK) && is_set(name::RENDEZVOUS_ADDR))
}

/// Rank and size as the user passes them, without anything else that `horovodrun` sets.
fn by_hand(environment: &Environment) -> Result<Option<DetectedRank>> {
    let rank = environment.optional(name::RANK)?;
    let size = environment.optional(name::SIZE)?;
    let (Some(rank), Some(size)) = (rank, size) else {
        return Ok(None);
    };
    // The launcher below still names the job, if there is one.
    let below = LAUNCHERS
        .iter()
        .find_map(|launcher| job_name(launcher, environment));
    Ok(Some(DetectedRank {
        launcher: &BY_HAND,
        rank,
        size: Some(size),
        local_size: None,
        node: None,
        job: below,
    }))
}

fn read(launcher: &'static Launcher, environment: &Environment) -> Reading {
    let is_whole = launcher
        .with
        .is_none_or(|with| environment.text(with).is_some());
    if !is_whole {
        return Reading::Absent;
    }
    // These names are not PyTorch's alone.
    let is_vague = *launcher == PYTORCH;
    let numbers = number(launcher, Some(launcher.rank), environment)
        .and_then(|rank| Ok((rank, number(launcher, launcher.size, environment)?)));
    let (rank, size) = match numbers {
        Err(_) if is_vague => return Reading::Absent,
        Err(error) => return Reading::Partial(error),
        Ok(numbers) => numbers,
    };
    let Some(rank) = rank else {
        return without_rank(launcher, size);
    };
    let has_namespace = environment.text("PMIX_NAMESPACE").is_some();
    match (launcher.size, size) {
        (Some(_), None) if is_vague => Reading::Absent,
        (Some(missing), None) => incomplete(launcher, launcher.rank, rank, missing),
        _ if *launcher == PMIX && !has_namespace && rank == 0 => Reading::Absent,
        _ if *launcher == PMIX && !has_namespace => {
            incomplete(launcher, launcher.rank, rank, "PMIX_NAMESPACE")
        }
        _ => Reading::Whole(whole(launcher, rank, size, environment)),
    }
}

fn whole(
    launcher: &'static Launcher,
    rank: u32,
    size: Option<u32>,
    environment: &Environment,
) -> DetectedRank {
    let text = |variable: Option<&'static str>| environment.text(variable?);
    DetectedRank {
        launcher,
        rank,
        size,
        local_size: text(launcher.local_size).and_then(|text| text.trim().parse().ok()),
        node: text(launcher.node).map(str::to_owned),
        job: job_name(launcher, environment),
    }
}

/// The number of a variable, if there is such a variable and it is set.
fn number(
    launcher: &Launcher,
    variable: Option<&'static str>,
    environment: &Environment,
) -> Result<Option<u32>> {
    let Some((variable, text)) = variable.and_then(|name| Some((name, environment.text(name)?)))
    else {
        return Ok(None);
    };
    let number = text.trim().parse().map_err(|_| Error::Malformed {
        command: launcher.command,
        variable,
        value: text.to_owned(),
    });
    number.map(Some)
}

/// The size alone: of several processes, or of one that needs no rank.
fn without_rank(launcher: &'static Launcher, size: Option<u32>) -> Reading {
    match (launcher.size, size) {
        (Some(variable), Some(size)) if size > 1 => {
            incomplete(launcher, variable, size, launcher.rank)
        }
        _ => Reading::Absent,
    }
}

fn incomplete(
    launcher: &'static Launcher,
    present: &'static str,
    value: u32,
    missing: &'static str,
) -> Reading {
    Reading::Partial(Error::Incomplete {
        command: launcher.command,
        present: format!("{present}={value}"),
        missing,
    })
}

/// The values of a launcher's variables for its job, fit for a file's name.
fn job_name(launcher: &Launcher, environment: &Environment) -> Option<String> {
    let values = launcher
        .job
        .iter()
        .filter_map(|variable| environment.text(variable));
    let name = values.collect::<Vec<&str>>().join("-");
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name
        .chars()
        .map(|c| if is_fit(c) { c } else { '_' })
        .collect();
    (!name.is_empty()).then(|| format!("{}-{name}", launcher.command))
}

/// PMI and PMIx by `srun` are `srun`; and a daemon that Slurm started to start others passes them on.
fn drop_variables_of_slurm(detection: &mut Vec<DetectedRank>, environment: &Environment) {
    let is_of = |detected: &DetectedRank, launcher: &Launcher| detected.launcher == launcher;
    let Some(slurm) = detection
        .iter()
        .find(|detected| is_of(detected, &SLURM))
        .cloned()
    else {
        return;
    };
    let namespace = environment.text("PMIX_NAMESPACE").unwrap_or_default();
    detection.retain(|detected| {
        let is_pmi2 = is_of(detected, &HYDRA) && !detected.contradicts(&slurm);
        let is_pmix = is_of(detected, &PMIX) && namespace.starts_with("slurm.");
        !is_pmi2 && !is_pmix
    });
}

/// Whether a launcher further out must not differ from the one that was chosen. Slurm's and Cray's
/// variables describe what they have started, which may in turn have started this process.
fn is_contradiction(chosen: &DetectedRank, other: &DetectedRank) -> bool {
    let is_comparable = if *other.launcher == PMIX {
        *chosen.launcher == OPEN_MPI
    } else {
        *other.launcher == PYTORCH || (*other.launcher == HYDRA && other.size != Some(1))
    };
    // `RANK` is read for both.
    let is_same_variable = chosen.launcher.rank == other.launcher.rank;
    is_comparable && !is_same_variable && chosen.contradicts(other)
}

fn checked(mut detected: DetectedRank, environment: &Environment) -> Result<DetectedRank> {
    let (command, rank_variable) = (detected.launcher.command, detected.launcher.rank);
    if detected.size.is_none() {
        detected.size = environment.optional(name::SIZE)?;
    }
    let knows_size = *detected.launcher == PMIX;
    match detected.size {
        None if knows_size => Ok(detected),
        None => Err(Error::NoSize {
            command,
            variable: rank_variable,
        }),
        Some(size) if detected.rank >= size => Err(Error::OutOfRange {
            command,
            rank_variable,
            rank: detected.rank,
            size_variable: detected.launcher.size.unwrap_or(name::SIZE),
            size,
        }),
        Some(_) => Ok(detected),
    }
}

#[cfg(test)]
mod tests;
