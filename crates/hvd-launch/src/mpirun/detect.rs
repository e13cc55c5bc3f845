//! Asks the `mpirun` on PATH which MPI it belongs to.

use std::{io, process::Command, time::Duration};

use tokio::sync::oneshot;

use super::{environment::Variables, implementation::Implementation};
use crate::{
    error::{Error, Result},
    process::{ReapedBy, Reaper, spawn_detached, subprocess},
};

/// How long a program may take to say its version; one on a slow network disk takes seconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How much of an unknown version is quoted.
const QUOTED: usize = 200;

/// The MPI of the `mpirun` that this environment's PATH leads to.
pub(crate) async fn detect(environment: &Variables, reaper: &Reaper) -> Result<Implementation> {
    let said = ask("mpirun", &["--version"], environment, reaper).await;
    let said = said.map_err(|error| Error::MpirunMissing {
        problem: match error.kind() {
            io::ErrorKind::NotFound => "there is none in PATH".to_owned(),
            _ => format!("`mpirun --version` fails: {error}"),
        },
    })?;
    Implementation::recognise(&said).ok_or_else(|| Error::MpirunUnknown {
        said: said.trim().chars().take(QUOTED).collect(),
    })
}

/// What a program prints, if it ends well.
pub(super) async fn ask(
    program: &str,
    arguments: &[&str],
    environment: &Variables,
    reaper: &Reaper,
) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment);
    let (sender, answer) = oneshot::channel();
    let reaped_by = ReapedBy::Reaper(reaper.clone());
    spawn_detached("hvd-ask", move || {
        let _ = sender.send(subprocess::output(&mut command, TIMEOUT, &reaped_by));
    });
    answer
        .await
        .unwrap_or_else(|_| Err(io::Error::other("no thread could be started")))
}
