"""Who is measured: ourselves and the peers that are installed, each as a job of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = {"gloo": "gloo", "ddp": "DDP buckets (gloo)", "openmpi": "Open MPI", "mpich": "MPICH"}


class PythonPeer:
    """horovod.torch, or torch.distributed with gloo, under `horovodrun`."""

    def __init__(self, kind):
        self.kind = kind

    def command(self, np):
        """The command line of a job, but for the workloads."""
        launcher = os.path.join(os.path.dirname(sys.executable), "horovodrun")
        return [launcher, "-np", str(np), sys.executable, str(HERE / "worker.py"), self.kind]


class MpiPeer:
    """A build of `mpi.c` with one kind of MPI."""

    def __init__(self, kind, folder):
        self.kind = kind
        self.program = str(Path(folder) / f"mpi-{kind}")
        source = str(HERE / "mpi.c")
        # Some compilers do not know MPI's way to say "no statuses" and warn of it.
        compiler = [f"mpicc.{kind}", "-O2", "-w"]
        subprocess.run([*compiler, "-o", self.program, source], check=True)

    def command(self, np):
        """The command line of a job, but for the workloads."""
        options = []
        if self.kind == "openmpi":
            # More ranks than cores are bound to none; containers usually run as root.
            options = ["--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]
        return [f"mpirun.{self.kind}", "-np", str(np), *options, self.program]


def installed(folder):
    """Ourselves, then every peer that this machine has; programs are built in `folder`."""
    peers = [PythonPeer(kind) for kind in ("horovod", "gloo", "ddp")]
    for kind in ("openmpi", "mpich"):
        if shutil.which(f"mpicc.{kind}") and shutil.which(f"mpirun.{kind}"):
            peers.append(MpiPeer(kind, folder))
        else:
            print(f"{NAMES[kind]} is not installed: left out", file=sys.stderr)
    return peers


def run(peer, np, workloads, seconds, folder):
    """Runs a peer's job once: median microseconds by workload, as far as it has the workload."""
    path = Path(folder) / "workloads"
    path.write_text("".join(" ".join(map(str, work.sizes)) + "\n" for work in workloads))
    command = [*peer.command(np), str(path), str(seconds)]
    environment = {**os.environ, "BENCH_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    job = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    results = {}
    for line in job.stdout.splitlines():
        if "RESULT " in line:
            index, median = line.split("RESULT ", 1)[1].split()
            results[workloads[int(index)].name] = float(median)
    if job.returncode != 0 or not results:
        sys.exit(f"{peer.kind} failed (exit code {job.returncode}):\n{job.stdout}{job.stderr}")
    return results


def free_port():
    """A port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
