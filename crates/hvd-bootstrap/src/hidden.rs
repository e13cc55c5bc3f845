//! A launcher whose variables were removed on the way: found among the ancestors of this process, as
//! `/proc` shows them, either itself or in the environment of a process that it has started. A
//! container with process numbers of its own hides even that.

use std::fs;

use hvd_config::{Environment, name};
use rustix::process::getppid;

use crate::detection::{DetectedRank, decide};
use crate::launchers::PYTORCH;
use crate::{Error, Result};

/// What launchers' processes are called, and what people type.
const PROCESSES: [(&str, &str); 12] = [
    ("mpirun", "mpirun"),
    ("mpirun.openmpi", "mpirun"),
    ("orterun", "mpirun"),
    ("orted", "mpirun"),
    ("prterun", "mpirun"),
    ("prted", "mpirun"),
    ("hydra_pmi_proxy", "mpiexec"),
    ("pmi_proxy", "mpiexec"),
    ("mpispawn", "mpirun_rsh"),
    ("jsmd", "jsrun"),
    ("pt_elastic", "torchrun"),
    ("torchrun", "torchrun"),
];

/// The name of the process of a Slurm step, `slurmstepd: [7.0]`; the batch script and interactive
/// steps have a word instead of the last number.
const SLURM_STEP: &str = "slurmstepd: [";

/// More generations than any process has between itself and its launcher.
const GENERATIONS: usize = 64;

/// Refuses to be a job of its own if an ancestor was started as one of several.
pub(crate) fn refuse(environment: &Environment) -> Result<()> {
    if environment.flag(name::IGNORE_LAUNCHER)? || environment.text(name::RANK).is_some() {
        return Ok(());
    }
    let mut process = getppid().map(rustix::process::Pid::as_raw_pid);
    for _ in 0..GENERATIONS {
        let Some(pid) = process.filter(|&pid| pid > 1) else {
            break;
        };
        if let Some((command, seen)) = launched_by(pid) {
            return Err(Error::Hidden {
                command,
                process: pid,
                seen,
            });
        }
        process = parent(pid);
    }
    Ok(())
}

/// The launcher that a process is, or that has started it as one of several; and what shows it.
fn launched_by(pid: i32) -> Option<(&'static str, String)> {
    if let Some(detected) = detected_in(pid) {
        return Some((
            detected.launcher.command,
            format!("has {}", detected.seen()),
        ));
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    // The kernel keeps 15 characters.
    let is_called =
        |(process, _): &&(&str, &str)| process.get(..15).unwrap_or(process) == name.trim();
    if let Some((process, command)) = PROCESSES.iter().find(is_called) {
        return Some((command, format!("is `{process}`")));
    }
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    is_step(&line).then(|| ("srun", "is a step of Slurm".to_owned()))
}

/// Whether this is the process of a step that `srun` has started.
fn is_step(command_line: &str) -> bool {
    let step = command_line
        .strip_prefix(SLURM_STEP)
        .and_then(|rest| rest.split(']').next());
    let number = step.and_then(|step| step.rsplit('.').next());
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// What a launcher has told another process of this user, unless it is alone.
fn detected_in(pid: i32) -> Option<DetectedRank> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variables = bytes.split(|&byte| byte == 0).filter_map(|variable| {
        let text = String::from_utf8_lossy(variable).into_owned();
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let environment: Environment = variables.collect();
    let detected = decide(&environment).ok()??;
    // What PyTorch reads is often set, and unset, in shells.
    let is_one_of_several = detected.size != Some(1) && *detected.launcher != PYTORCH;
    is_one_of_several.then_some(detected)
}

/// The second field after the name, which stands in parentheses and may contain some.
fn parent(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = status.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_was_started_as_one_of_several_is_recognised() {
        let mut child = Command::new("sh")
            .args(["-c", "echo started; read end"])
            .env("PMI_RANK", "1")
            .env("PMI_SIZE", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Before that the kernel may show no environment.
        let mut started = [0; 8];
        let output = child.stdout.as_mut().unwrap();
        output.read_exact(&mut started).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let detected = detected_in(pid);
        let above = parent(pid);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(
            detected.map(|detected| (detected.rank, detected.size)),
            Some((1, Some(2)))
        );
        assert_eq!(above, i32::try_from(std::process::id()).ok());
    }

    #[test]
    fn steps_of_srun_are_told_from_batch_scripts() {
        assert!(is_step("slurmstepd: [77.0]") && is_step("slurmstepd: [77.12] "));
        for other in [
            "slurmstepd: [77.batch]",
            "slurmstepd: [7.interactive]",
            "bash",
            "",
        ] {
            assert!(!is_step(other), "{other}");
        }
    }

    #[test]
    fn this_test_was_started_alone() {
        refuse(&Environment::default()).unwrap();
    }
}
