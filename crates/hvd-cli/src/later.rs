//! Options of Horovod that this version does not have yet. Whoever types one is told so, instead of
//! being told that there is no such thing.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

const LATER: [&str; 44] = [
    "--autotune",
    "--autotune-bayes-opt-max-samples",
    "--autotune-gaussian-process-noise",
    "--autotune-log-file",
    "--autotune-steps-per-sample",
    "--autotune-warmup-samples",
    "--binding-args",
    "--blacklist-cooldown-range",
    "--config-file",
    "--elastic-timeout",
    "--hierarchical-allgather",
    "--hierarchical-allreduce",
    "--host-discovery-script",
    "--hostfile",
    "--jsrun",
    "--log-hide-timestamp",
    "--log-with-timestamp",
    "--log-without-timestamp",
    "--max-np",
    "--max-num-proc",
    "--min-np",
    "--min-num-proc",
    "--mpi",
    "--mpi-args",
    "--mpi-threads-disable",
    "--no-autotune",
    "--no-hierarchical-allgather",
    "--no-hierarchical-allreduce",
    "--no-log-hide-timestamp",
    "--no-mpi-threads-disable",
    "--no-stall-check",
    "--no-timeline-mark-cycles",
    "--no-torus-allreduce",
    "--num-nccl-streams",
    "--reset-limit",
    "--slots-per-host",
    "--stall-check",
    "--stall-check-shutdown-time-seconds",
    "--stall-check-warning-time-seconds",
    "--tcp",
    "--thread-affinity",
    "--timeline-filename",
    "--timeline-mark-cycles",
    "--torus-allreduce",
];

/// What to say instead of "unexpected argument", if the option is one of those to come.
pub(crate) fn explain(error: &Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(option) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let option = option.split('=').next()?;
    LATER.contains(&option).then(|| {
        format!(
            "`{option}` is an option of Horovod that this version does not have yet; leave it out"
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{args::Args, argv::spell_out};

    fn explained(line: &str) -> Option<String> {
        let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        explain(&Args::try_parse_from(spell_out(&argv)).unwrap_err())
    }

    #[test]
    fn options_to_come_are_told_from_mistakes() {
        for line in [
            "horovodrun --hostfile h x",
            "horovodrun -hostfile h x",
            "horovodrun --mpi-args=a x",
        ] {
            assert!(
                explained(line).unwrap().contains("does not have yet"),
                "{line}"
            );
        }
        assert_eq!(explained("horovodrun --hostfiles h x"), None);
        assert_eq!(explained("horovodrun -np x"), None);
    }
}
