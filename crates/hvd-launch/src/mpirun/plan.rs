//! What will be run for a job: the command line, and the rankfile that `jsrun` reads. Asks `mpirun`
//! and the allocation; writes and starts nothing.

use std::{ffi::OsStr, path::Path};

use super::{
    MpiOptions, RankLauncher,
    command::{self, CommandLine},
    detect::detect,
    environment,
    implementation::Implementation,
    jsrun,
    lsf::{self, LsfFacts},
    rankfile::rankfile,
};
use crate::{
    error::{Error, Result},
    process::Reaper,
    spec::JobSpec,
};

/// What will be run.
#[derive(Debug)]
pub(super) struct Plan {
    implementation: Implementation,
    pub(super) line: CommandLine,
    /// The text of the file that the line names, if it names one.
    pub(super) rankfile: Option<String>,
}

impl Plan {
    /// Decides it. The rankfile will be at `scratch`.
    pub(super) async fn make(
        spec: &JobSpec,
        options: &MpiOptions,
        reaper: &Reaper,
        scratch: &Path,
    ) -> Result<Self> {
        let environment = environment::of_mpirun(spec);
        if options.launcher == RankLauncher::Jsrun
            && !environment.contains_key(OsStr::new(lsf::JOB))
        {
            return Err(Error::NotInLsf);
        }
        let implementation = detect(&environment, reaper).await;
        match options.launcher {
            RankLauncher::Mpirun => {
                let implementation = implementation?;
                Ok(Self {
                    implementation,
                    line: command::compose(implementation, spec, options)?,
                    rankfile: None,
                })
            }
            RankLauncher::Jsrun => {
                // It comes with Spectrum MPI, whose `mpirun` need not be on PATH.
                let implementation = match implementation {
                    Err(Error::MpirunMissing { .. }) => Implementation::Spectrum,
                    other => other?,
                };
                Self::of_jsrun(implementation, spec, options, reaper, scratch).await
            }
        }
    }

    async fn of_jsrun(
        implementation: Implementation,
        spec: &JobSpec,
        options: &MpiOptions,
        reaper: &Reaper,
        scratch: &Path,
    ) -> Result<Self> {
        let rankfile = if options.binding.is_some() {
            None
        } else {
            let facts = LsfFacts::ask(spec, reaper).await?;
            let spec = facts.fill_in(spec, options.ranks)?;
            Some(rankfile(&spec, &facts)?)
        };
        Ok(Self {
            implementation,
            line: jsrun::compose(implementation, spec, options, scratch)?,
            rankfile,
        })
    }

    /// The program that runs the job.
    pub(super) fn program(&self) -> &str {
        self.line.words.first().map_or("", String::as_str)
    }

    /// The program and the MPI it belongs to.
    pub(super) fn title(&self) -> String {
        format!("{} of {}", self.program(), self.implementation)
    }
}
