//! From the refusal of a batch system's command to what a person does about it. Texts of `srun` are
//! those of Slurm 22.05; the others are quoted as they are. Writes sentences only.

use super::Starter;
use crate::hosts::ssh::{self, SshFailure, said};

/// How many of the last lines of a refusal are quoted.
const QUOTED_LINES: usize = 3;

/// A refusal in the words of a person: what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StarterExplanation {
    /// Whether the interpreter is there without horovod, so that another one may be tried.
    pub(crate) lacks_horovod: bool,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

/// What is known of the attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) host: &'a str,
    /// Its exit status; nothing if it was ended by a signal.
    pub(crate) exit: Option<i32>,
    pub(crate) stderr: &'a str,
    /// What came instead of the agent's greeting.
    pub(crate) noise: &'a str,
    /// How a person gets there.
    pub(crate) by_hand: &'a str,
    /// The wheel that this Horovod was installed from.
    pub(crate) wheel: Option<&'a str>,
}

/// A part of what srun says, what it means, and what to do; `{host}` and `{by_hand}` are filled in.
type RefusalText = (&'static str, &'static str, &'static str);

const OF_SRUN: &[RefusalText] = &[
    (
        "unrecognized option '--overlap'",
        "this Slurm is older than 20.11 and cannot start an agent beside other steps",
        "add `--launcher ssh`",
    ),
    (
        "Invalid job id specified",
        "the Slurm job has ended, or its time is over",
        "start a new one with salloc or sbatch; `squeue --me` lists your jobs",
    ),
    (
        "Job/step already completing or completed",
        "the Slurm job is ending",
        "start a new one with salloc or sbatch; `squeue --me` lists your jobs",
    ),
    (
        "Unable to contact slurm controller",
        "the Slurm controller does not answer",
        "try `scontrol ping`; when it says UP, start the job again",
    ),
    (
        "Invalid node name specified",
        "Slurm has no node `{host}`",
        "`scontrol show hostnames` lists the nodes of this job",
    ),
    (
        "Requested nodes not available",
        "Slurm cannot use node `{host}` now",
        "`sinfo -N -l -n {host}` shows its state and the reason; start the job without it",
    ),
    (
        "Requested node configuration is not available",
        "node `{host}` is not one of this Slurm job, or its resources cannot be had",
        "`scontrol show hostnames` lists the nodes of this job; add `--launcher ssh` for others",
    ),
    (
        "Communication connection failure",
        "node `{host}` does not answer Slurm",
        "`sinfo -N -l -n {host}` shows its state and the reason; start the job without it",
    ),
    (
        "Unable to create step",
        "Slurm creates no step on node `{host}`",
        "try `{by_hand} hostname` until it works",
    ),
];

/// Explains why no agent answers from a host.
pub(crate) fn explain(starter: Starter, attempt: &Attempt<'_>) -> StarterExplanation {
    let cause = ssh::recognise(attempt.exit, attempt.stderr, attempt.noise);
    let lacks_horovod = cause == SshFailure::NoHorovod;
    let (what, remedy) = match cause {
        SshFailure::AgentMissing | SshFailure::NoHorovod => no_horovod(attempt, lacks_horovod),
        _ => by_signs(starter, attempt).unwrap_or_else(|| unknown(starter, attempt)),
    };
    StarterExplanation {
        lacks_horovod,
        what,
        remedy,
    }
}

/// What an `srun` that has not started its task yet waits for, if it says so.
pub(crate) fn waits_for(stderr: &str) -> Option<&str> {
    let line = stderr.lines().rfind(|line| line.contains("retrying"))?;
    let (_, reason) = line.split_once('(')?;
    Some(reason.trim_end_matches([')', ' ']))
}

fn by_signs(starter: Starter, attempt: &Attempt<'_>) -> Option<(String, String)> {
    if starter != Starter::Srun {
        return None;
    }
    let sign = OF_SRUN
        .iter()
        .find(|(words, ..)| attempt.stderr.contains(words));
    let (_, what, remedy) = sign?;
    let fill = |text: &str| {
        text.replace("{host}", attempt.host)
            .replace("{by_hand}", attempt.by_hand)
    };
    let what = format!("no agent on host `{}`: {}", attempt.host, fill(what));
    Some((format!("{what} ({})", quoted_lines(attempt)), fill(remedy)))
}

fn no_horovod(attempt: &Attempt<'_>, has_python: bool) -> (String, String) {
    let host = attempt.host;
    let what = if has_python {
        format!("the Python of this path on host `{host}` has no horovod of this version")
    } else {
        format!("host `{host}` has neither this host's Python nor `horovodrun` on its PATH")
    };
    let remedy = match attempt.wheel {
        Some(_) => ssh::install(Some(attempt.by_hand), attempt.wheel, "python3"),
        None => format!(
            "install horovod where all nodes see it, in a virtual environment on a shared file \
             system, or see `{} python3 -m pip list`",
            attempt.by_hand
        ),
    };
    (what, remedy)
}

fn unknown(starter: Starter, attempt: &Attempt<'_>) -> (String, String) {
    let program = starter.program();
    let ended = match attempt.exit {
        Some(status) => format!("{program} ended with status {status}"),
        None => format!("{program} was ended"),
    };
    (
        format!(
            "no agent on host `{}`: {ended}, {}",
            attempt.host,
            quoted_lines(attempt)
        ),
        format!("try by hand until it works: `{} hostname`", attempt.by_hand),
    )
}

fn quoted_lines(attempt: &Attempt<'_>) -> String {
    let mut lines = said(attempt.stderr);
    lines.extend(said(attempt.noise));
    match &lines[lines.len().saturating_sub(QUOTED_LINES)..] {
        [] => "without a word".to_owned(),
        last => format!("saying `{}`", last.join("` `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(starter: Starter, exit: i32, stderr: &str) -> StarterExplanation {
        let attempt = Attempt {
            host: "n2",
            exit: Some(exit),
            stderr,
            noise: "",
            by_hand: "srun -w n2",
            wheel: None,
        };
        explain(starter, &attempt)
    }

    /// The words are those of Slurm 22.05.
    #[test]
    fn refusals_of_srun_say_what_to_type() {
        let said = explained(
            Starter::Srun,
            1,
            "srun: error: Unable to create step for job 12: Requested node configuration is not \
             available\n",
        );
        assert_eq!(
            said.what,
            "no agent on host `n2`: node `n2` is not one of this Slurm job, or its resources \
             cannot be had (saying `srun: error: Unable to create step for job 12: Requested node \
             configuration is not available`)"
        );
        assert!(said.remedy.starts_with("`scontrol show hostnames`"));
        for (stderr, remedy) in [
            (
                "srun: unrecognized option '--overlap'",
                "add `--launcher ssh`",
            ),
            (
                "srun: error: Unable to confirm allocation for job 99: Invalid job id specified",
                "`squeue --me`",
            ),
            (
                "srun: error: Unable to create step for job 3: whatever",
                "`srun -w n2 hostname`",
            ),
            (
                "srun: error: Task launch for StepId=3.0 failed on node n2: Communication connection failure",
                "`sinfo -N -l -n n2`",
            ),
            (
                "something else",
                "try by hand until it works: `srun -w n2 hostname`",
            ),
        ] {
            let said = explained(Starter::Srun, 1, stderr);
            assert!(said.remedy.contains(remedy), "{stderr}: {}", said.remedy);
        }
    }

    #[test]
    fn a_missing_horovod_is_not_the_fault_of_srun() {
        let said = explained(Starter::Srun, 127, "horovod-agent-missing: /opt/python\n");
        assert!(
            said.what.contains("neither this host's Python nor"),
            "{said:?}"
        );
        let said = explained(
            Starter::Blaunch,
            1,
            "/opt/python: Error while finding module specification for \
             'horovod.runner.agent' (ModuleNotFoundError: No module named 'horovod')",
        );
        assert!(said.lacks_horovod, "{said:?}");
    }

    #[test]
    fn a_step_that_waits_says_for_what() {
        let stderr = "srun: Job 17 step creation temporarily disabled, retrying (Requested nodes are busy)\n";
        assert_eq!(waits_for(stderr), Some("Requested nodes are busy"));
        assert_eq!(waits_for("srun: error: no"), None);
    }
}
