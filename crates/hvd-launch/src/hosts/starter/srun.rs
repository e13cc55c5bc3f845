//! Slurm's `srun` as the way to a node of the job: one step of one task, which shares the node with
//! every other step. Composed for Slurm 20.11 and newer, which have `--overlap`; tried with 22.05.
//!
//! - `--overlap`: a step gets CPUs and GPUs that other steps of the job have; without it, it would
//!   wait for them. Not `--exact`: by default a step gets all CPUs of the job on its node.
//! - `--mem=0`: all memory of the job on the node; else one task's part of it.
//! - GPUs: none are asked for, so the step gets those of the job, and `CUDA_VISIBLE_DEVICES` is
//!   that of the node.
//! - `--mpi=none`: the agent is no MPI process; `--cpu-bind=none`: its ranks use all CPUs.
//! - Standard input and output are said outright, because variables could redirect them.

use std::ffi::{OsStr, OsString};

use super::words;
use crate::hosts::ssh::{quote, script};

/// Variables with which salloc and sbatch hand the requests of a job on to srun, which would take
/// them for requests of the agent's step, and those that move its streams.
const INPUTS: [&str; 33] = [
    "SLURM_ARBITRARY_NODELIST",
    "SLURM_CORE_SPEC",
    "SLURM_CPUS_PER_GPU",
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPU_BIND",
    "SLURM_DISTRIBUTION",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPU_BIND",
    "SLURM_HINT",
    "SLURM_HOSTFILE",
    "SLURM_LABELIO",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_MULTI_PROG",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_STDERRMODE",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_THREADS_PER_CORE",
    "SLURM_TRES_PER_TASK",
    "SLURM_UNBUFFEREDIO",
    "SLURM_WHOLE",
];

/// Whether srun takes the variable for an option.
pub(super) fn is_input(variable: &OsStr) -> bool {
    INPUTS.iter().any(|name| variable == *name)
}

/// Program and arguments.
pub(super) fn command(host: &str, interpreter: &str) -> Vec<OsString> {
    words(&[
        "srun",
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
        &format!("--nodelist={host}"),
        "--overlap",
        "--mem=0",
        "--mpi=none",
        "--cpu-bind=none",
        "--export=ALL",
        "--input=all",
        "--output=all",
        "--error=all",
        "/bin/sh",
        "-c",
        &script(interpreter),
    ])
}

/// What a person types in front of a command.
pub(super) fn by_hand(host: &str) -> String {
    format!("srun --overlap -N1 -n1 --mem=0 -w {}", quote(host))
}
