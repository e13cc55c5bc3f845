//! `horovod.run(use_mpi=True)`: the function and its results travel through a key-value store of this
//! process, as in a job without `mpirun`, and the ranks meet there too. The store listens on loopback
//! and its key is a file, so all ranks are on this host.

use std::{net::Ipv4Addr, path::Path};

use hvd_rendezvous::{JobKey, Server};

use super::environment::Variables;
use crate::{
    driver::{Results, first_with_error, store_function},
    error::{Error, Result},
    hosts::resolve,
    process::{KeyFile, ProcessExit, StoreLocation, store_variables},
    spec::JobSpec,
};

/// The store of a job that runs a function.
pub(super) struct FunctionStore {
    server: Server,
    results: Option<Results>,
    key_file: KeyFile,
    ranks: usize,
}

impl FunctionStore {
    /// Reads the function and stores it; nothing if the job runs a command.
    pub(super) async fn open(spec: &JobSpec, scratch: &Path) -> Result<Option<Self>> {
        if !spec.function.is_used() {
            return Ok(None);
        }
        check_hosts(spec).await?;
        let results = spec.function.results.map(Results::open).transpose()?;
        let key = JobKey::generate()?;
        let key_file = KeyFile::create(scratch, &key)?;
        let server = Server::start((Ipv4Addr::LOCALHOST, 0), &key)?;
        if spec.function.input {
            store_function(&server).await?;
        }
        Ok(Some(Self {
            server,
            results,
            key_file,
            ranks: spec.placements.len(),
        }))
    }

    /// Tells the ranks where the function is.
    pub(super) fn add_location_to(&self, environment: &mut Variables) {
        let location = StoreLocation {
            address: self.server.address(),
            key_file: self.key_file.path(),
        };
        let variables = store_variables(location);
        environment.extend(variables.map(|(name, value)| (name.into(), value)));
    }

    /// Hands over the results, or what a rank says about its exception. Returns whether that says
    /// how the job ended.
    pub(super) async fn finish(self, exit: ProcessExit) -> Result<bool> {
        let Some(results) = self.results else {
            return Ok(false);
        };
        if !exit.is_failure() {
            results.write(&self.server, self.ranks).await?;
            return Ok(true);
        }
        match first_with_error(&self.server, self.ranks) {
            Some(rank) => Ok(results.write_error(&self.server, rank).await),
            None => Ok(false),
        }
    }
}

async fn check_hosts(spec: &JobSpec) -> Result<()> {
    let used = spec.hosts.iter().filter(|host| host.slots > 0);
    let names: Vec<String> = used.map(|host| host.hostname().to_owned()).collect();
    let resolved = resolve(&names).await?;
    match names
        .into_iter()
        .zip(resolved)
        .find(|(_, host)| !host.is_local)
    {
        Some((host, _)) => Err(Error::FunctionOnOtherHost { host }),
        None => Ok(()),
    }
}
