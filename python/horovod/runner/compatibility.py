"""`parse_args`, `_run` and `_HorovodArgs` of upstream Horovod's launcher, by which programs start
jobs; kept for compatibility. New programs should call `horovod.run()` or `horovodrun`.

So are the modules `horovod.runner.common.util.hosts`, `.env` and `horovod.runner.util.threads`.
`tests/single/upstream_names.py` lists all names. What the options mean and whether they fit
together is decided by `horovodrun`, to which they are handed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple


class _Option(NamedTuple):
    """An option of `horovodrun` and the attribute that upstream keeps it in."""

    attribute: str
    spellings: str
    """Separated by blanks; the last one is passed on."""
    kind: str = "value"
    opposite: str = ""
    """What is passed on for False, if anything is."""


_OPTIONS = [
    _Option("check_build", "-cb --check-build", "flag"),
    _Option("num_proc", "-n -np --num-proc", "number"),
    _Option("hosts", "-H --hosts"),
    _Option("hostfile", "-hostfile --hostfile"),
    _Option("ssh_port", "-p --ssh-port", "number"),
    _Option("ssh_identity_file", "-i --ssh-identity-file"),
    _Option("start_timeout", "--start-timeout", "number"),
    _Option("nics", "--network-interface --network-interfaces", "names"),
    _Option("disable_cache", "--disable-cache", "flag"),
    _Option("output_filename", "--output-filename"),
    _Option("verbose", "--verbose", "flag"),
    _Option("config_file", "--config-file"),
    _Option("use_gloo", "--gloo", "flag"),
    _Option("use_mpi", "--mpi", "flag"),
    _Option("use_jsrun", "--jsrun", "flag"),
    _Option("mpi_args", "--mpi-args"),
    _Option("binding_args", "--binding-args"),
    _Option("tcp_flag", "--tcp", "flag"),
    _Option("fusion_threshold_mb", "--fusion-threshold-mb", "number"),
    _Option("cycle_time_ms", "--cycle-time-ms", "real"),
    _Option("cache_capacity", "--cache-capacity", "number"),
    _Option(
        "hierarchical_allreduce", "--hierarchical-allreduce", "flag", "--no-hierarchical-allreduce"
    ),
    _Option(
        "hierarchical_allgather", "--hierarchical-allgather", "flag", "--no-hierarchical-allgather"
    ),
    _Option("torus_allreduce", "--torus-allreduce", "flag", "--no-torus-allreduce"),
    _Option("autotune", "--autotune", "flag", "--no-autotune"),
    _Option("autotune_log_file", "--autotune-log-file"),
    _Option("autotune_warmup_samples", "--autotune-warmup-samples", "number"),
    _Option("autotune_steps_per_sample", "--autotune-steps-per-sample", "number"),
    _Option("autotune_bayes_opt_max_samples", "--autotune-bayes-opt-max-samples", "number"),
    _Option("autotune_gaussian_process_noise", "--autotune-gaussian-process-noise", "real"),
    _Option("min_num_proc", "--min-np --min-num-proc", "number"),
    _Option("max_num_proc", "--max-np --max-num-proc", "number"),
    _Option("slots", "--slots-per-host", "number"),
    _Option("elastic_timeout", "--elastic-timeout", "number"),
    _Option("reset_limit", "--reset-limit", "number"),
    _Option("cooldown_range", "--blacklist-cooldown-range", "pair"),
    _Option("host_discovery_script", "--host-discovery-script"),
    _Option("timeline_filename", "--timeline-filename"),
    _Option("timeline_mark_cycles", "--timeline-mark-cycles", "flag", "--no-timeline-mark-cycles"),
    _Option("no_stall_check", "--no-stall-check", "flag", "--stall-check"),
    _Option("stall_check_warning_time_seconds", "--stall-check-warning-time-seconds", "number"),
    _Option("stall_check_shutdown_time_seconds", "--stall-check-shutdown-time-seconds", "number"),
    _Option("mpi_threads_disable", "--mpi-threads-disable", "flag", "--no-mpi-threads-disable"),
    _Option("num_nccl_streams", "--num-nccl-streams", "number"),
    _Option("thread_affinity", "--thread-affinity"),
    _Option("gloo_timeout_seconds", "--gloo-timeout-seconds", "number"),
    _Option("log_level", "--log-level"),
    _Option("log_with_timestamp", "--log-with-timestamp", "flag", "--log-without-timestamp"),
    _Option(
        "prefix_output_with_timestamp", "-prefix-timestamp --prefix-output-with-timestamp", "flag"
    ),
]

_ARGPARSE: dict[str, dict[str, Any]] = {
    "value": {},
    "number": {"type": int},
    "real": {"type": float},
    "names": {"type": lambda text: set(text.split(","))},
    "pair": {"type": int, "nargs": 2},
    "flag": {"action": "store_const", "const": True},
}


class _HorovodArgs(argparse.Namespace):
    """What a job is started with. What is None is left to `horovodrun`.

    `command` is the command as a list, or `run_func` a function without arguments, which runs on
    every rank by `executable`, a Python.
    """

    def __init__(self) -> None:
        super().__init__(**{option.attribute: None for option in _OPTIONS})
        self.num_proc: int | None = 1
        self.command: Sequence[str] | None = None
        self.run_func: Any = None
        self.executable: str | None = None


def parse_args(argv: Sequence[str] | None = None) -> _HorovodArgs:
    """Reads options of `horovodrun`, by default those of this process."""
    parser = argparse.ArgumentParser("horovodrun")
    for option in _OPTIONS:
        settings = {"dest": option.attribute, "default": None, **_ARGPARSE[option.kind]}
        parser.add_argument(*option.spellings.split(), **settings)
        if option.opposite:
            parser.add_argument(
                option.opposite, dest=option.attribute, action="store_const", const=False
            )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = _HorovodArgs()
    args.num_proc = None
    return parser.parse_args(argv, args)


def command_line(args: Any) -> list[str]:
    """The options of `horovodrun` that say what `args` says, without the command."""
    words: list[str] = []
    for option in _OPTIONS:
        value = getattr(args, option.attribute, None)
        spelling = option.spellings.split()[-1]
        if option.kind == "flag":
            if value is not None:
                words += [word for word in [spelling if value else option.opposite] if word]
        elif option.kind == "pair" and value:
            words += [spelling, *map(str, value)]
        elif option.kind == "names" and value:
            words += [spelling, value if isinstance(value, str) else ",".join(sorted(value))]
        elif value is not None and option.kind not in ("pair", "names"):
            words.append(f"{spelling}={value}")
    return words


def _run(args: Any) -> list[Any] | None:
    """Runs a job: the command, or the function, whose results are returned, by rank.

    Raises RuntimeError if it fails.
    """
    if getattr(args, "run_func", None) is not None:
        from horovod.runner.function_job import run_function

        executable = getattr(args, "executable", None)
        return run_function(
            args.run_func,
            command_line(args),
            args.num_proc,
            executable,
            prints_exceptions=args.output_filename is not None,
        )
    command = [sys.executable, "-m", "horovod.runner.launch", *command_line(args)]
    code = subprocess.call([*command, *(getattr(args, "command", None) or [])])
    if code != 0:
        raise RuntimeError(f"the job failed: horovodrun ended with code {code}")
    return None
