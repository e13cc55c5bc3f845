//! A job of some of the ranks: `hvd.init(comm=[0, 2])`. The others may be busy with something else,
//! so nothing that needs all of them can pass the announcement on.

use std::time::Instant;

use hvd_config::{BootstrapConfig, Environment, KeySource, WorkerConfig};
use hvd_rendezvous::{Client, JobKey, Store};
use hvd_types::Rank;

use crate::detection::DetectedRank;
use crate::facility::{Directory, Facility};
use crate::launchers::BY_HAND;
use crate::{Error, Result};

/// What `horovodrun` has told this process, as another launcher would have.
pub(crate) fn detected_by_horovodrun(environment: &Environment) -> Result<DetectedRank> {
    let placement = WorkerConfig::read(environment)?.placement;
    Ok(DetectedRank {
        launcher: &BY_HAND,
        rank: placement.rank.number(),
        size: Some(placement.size),
        local_size: Some(placement.local_size),
        node: None,
        job: None,
    })
}

/// This rank's position in the list.
pub(crate) fn position(whole: &DetectedRank, ranks: &[u32]) -> Result<Rank> {
    let size = whole.size.unwrap_or(u32::MAX);
    let refuse = |problem| {
        Err(Error::Subset {
            ranks: ranks.to_vec(),
            rank: whole.rank(),
            size,
            problem,
        })
    };
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse("a rank is named twice");
    }
    if sorted.last().is_some_and(|&last| last >= size) {
        return refuse("there is no such rank");
    }
    match ranks.iter().position(|&rank| rank == whole.rank) {
        Some(own) => Ok(Rank::from_index(own)),
        None => refuse("this rank is not in the list; only those that are call init with it"),
    }
}

/// The store of `horovodrun`, or else a file named after the ranks.
pub(crate) fn facility(
    whole: &DetectedRank,
    ranks: &[u32],
    own: Rank,
    config: &BootstrapConfig,
    environment: &Environment,
) -> Result<Box<dyn Facility>> {
    let words: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let members = words.join("-");
    if let Some(rendezvous) = WorkerConfig::read(environment)
        .ok()
        .and_then(|it| it.rendezvous)
    {
        let key = match &rendezvous.key {
            KeySource::Text(text) => JobKey::from_hex(text)?,
            KeySource::File(path) => JobKey::from_file(path)?,
        };
        let client = Client::connect(&rendezvous.address, rendezvous.port, &key, config.timeout)?;
        let name = format!("bootstrap/of-{members}");
        return Ok(Box::new(DriverStore { client, name }));
    }
    let directory = Directory::of(whole.job.as_deref(), config, own);
    let nowhere = || Error::NoFacility {
        rank: whole.rank(),
        size: whole.size.unwrap_or_default(),
        command: whole.launcher.command,
    };
    Ok(Box::new(directory.ok_or_else(nowhere)?.narrowed(&members)))
}

/// The store that `horovodrun` serves to all ranks.
struct DriverStore {
    client: Client,
    name: String,
}

impl Facility for DriverStore {
    fn name(&self) -> String {
        "the store of horovodrun".to_owned()
    }

    fn share(&mut self, text: Option<&str>, end: Instant) -> std::result::Result<String, String> {
        let failed = |error: hvd_rendezvous::Error| error.to_string();
        if let Some(text) = text {
            self.client
                .put(&self.name, text.as_bytes())
                .map_err(failed)?;
            return Ok(text.to_owned());
        }
        let left = end.saturating_duration_since(Instant::now());
        let text = self.client.get(&self.name, left).map_err(failed)?;
        String::from_utf8(text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(rank: u32) -> DetectedRank {
        DetectedRank {
            launcher: &BY_HAND,
            rank,
            size: Some(4),
            local_size: None,
            node: None,
            job: None,
        }
    }

    #[test]
    fn ranks_are_numbered_in_the_order_of_the_list() {
        assert_eq!(position(&detected(2), &[3, 2, 0]).unwrap(), Rank::new(1));
        for (rank, ranks, problem) in [
            (1, &[0, 2][..], "this rank is not in the list"),
            (0, &[0, 4], "there is no such rank"),
            (0, &[0, 2, 0], "a rank is named twice"),
        ] {
            let text = position(&detected(rank), ranks).unwrap_err().to_string();
            assert!(text.contains(problem), "{text}");
        }
    }
}
